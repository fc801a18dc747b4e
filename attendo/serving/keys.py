"""Who may ask, and how often."""

import hashlib
import hmac
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attendo.errors import ConfigError
from attendo.serving.limits import Refusal


@dataclass(frozen=True, slots=True)
class Key:
    """A key's digest, by which it is compared, and how many requests it may make a minute; None is any number."""

    digest: bytes
    per_minute: float | None = None

    @classmethod
    def of(cls, secret: str, per_minute: float | None = None) -> "Key":
        return cls(_digest(secret), per_minute)


class Keys:
    """Some keys, each with a bucket of requests that fills with time and holds those of one minute."""

    def __init__(self, keys: Sequence[Key], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = tuple(keys)
        self._clock = clock
        self._buckets = {key: (_most(key), clock()) for key in self._keys}  # requests left, as of when

    def admit(self, secret: str | None) -> None:
        """Takes a request from the bucket of this key, or refuses."""
        if not secret:
            raise Refusal(401, "this server needs an API key: send the header 'Authorization: Bearer KEY'.")
        digest = _digest(secret)
        # Every key is compared, wholly, so that the time it takes says nothing about any.
        known = [key for key in self._keys if hmac.compare_digest(key.digest, digest)]
        if not known:
            raise Refusal(401, "the API key is not one of this server's. Check it.")
        key = known[0]
        if key.per_minute is None:
            return
        left, since = self._buckets[key]
        now = self._clock()
        left = min(_most(key), left + (now - since) * key.per_minute / 60)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise Refusal(
                429,
                f"the API key is good for {key.per_minute:g} requests a minute. Ask again later.",
                limit="requests_per_minute",
                value=key.per_minute,
                retry_after=max(1, math.ceil((1 - left) * 60 / key.per_minute)),
            )


def read_keys(path: Path | str) -> Keys:
    """A file of lines `KEY` or `KEY REQUESTS_PER_MINUTE`; empty lines and lines that begin with # are left out.

    No message repeats a key.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-keys {path}: the file cannot be read: {error}") from None
    keys: dict[bytes, Key] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        rate = _rate(words[1]) if len(words) == 2 else None
        if len(words) > 2 or (len(words) == 2 and rate is None) or not (words[0].isascii() and words[0].isprintable()):
            raise ConfigError(
                f"--api-keys {path}, line {number}: must be a key of ASCII characters, and after it, if anything, how "
                "many requests a minute it is good for."
            )
        key = Key.of(words[0], rate)
        if key.digest in keys:
            raise ConfigError(f"--api-keys {path}, line {number}: the key is there before. Keep one of them.")
        keys[key.digest] = key
    if not keys:
        raise ConfigError(f"--api-keys {path}: there is no key in it, so nobody could ask. Add one, or leave it out.")
    return Keys(list(keys.values()))


def _rate(word: str) -> float | None:
    try:
        rate = float(word)
    except ValueError:
        return None
    return rate if 0 < rate < math.inf else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _most(key: Key) -> float:
    """What its bucket holds."""
    return max(1.0, key.per_minute or 0.0)
