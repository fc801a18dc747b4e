"""Who may ask, and how often."""

import pytest

from attendo.errors import ConfigError
from attendo.serving.keys import Key, Keys, read_keys
from attendo.serving.limits import Refusal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_key_is_good_for_so_many_requests_a_minute():
    clock = Clock()
    keys = Keys([Key.of("seldom", 6), Key.of("often"), Key.of("other", 6)], clock=clock)
    for _ in range(6):
        keys.admit("seldom")
    with pytest.raises(Refusal) as refused:
        keys.admit("seldom")
    assert (refused.value.status, refused.value.limit, refused.value.value) == (429, "requests_per_minute", 6)
    assert refused.value.retry_after == 10
    for _ in range(100):
        keys.admit("often")
    keys.admit("other")
    clock.now += 10.1
    keys.admit("seldom")
    with pytest.raises(Refusal):
        keys.admit("seldom")
    clock.now += 10_000
    for _ in range(6):  # no more than a minute's are saved up
        keys.admit("seldom")
    with pytest.raises(Refusal):
        keys.admit("seldom")


def test_a_rate_below_one_a_minute():
    clock = Clock()
    keys = Keys([Key.of("rare", 0.5)], clock=clock)
    keys.admit("rare")
    with pytest.raises(Refusal) as refused:
        keys.admit("rare")
    assert refused.value.retry_after == 120
    clock.now += 121
    keys.admit("rare")


@pytest.mark.parametrize("secret", [None, "", "wrong", "SECRET", "secret ", "sécret", "\udcff"])
def test_who_has_no_key(secret):
    with pytest.raises(Refusal) as refused:
        Keys([Key.of("secret")]).admit(secret)
    assert refused.value.status == 401


def test_keys_are_read_from_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# ours\nfirst\n\n  second  2.5\n")
    keys = read_keys(path)
    keys.admit("first")
    keys.admit("second")
    keys.admit("second")
    with pytest.raises(Refusal, match=r"2\.5 requests a minute"):
        keys.admit("second")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no key in it"),
        ("# nothing\n", "there is no key in it"),
        ("key 5 7\n", "line 1: must be a key"),
        ("key\nother many\n", "line 2: must be a key"),
        ("key 0\n", "line 1: must be a key"),
        ("key nan\n", "line 1: must be a key"),
        ("clé\n", "line 1: must be a key of ASCII"),
        ("key\nkey 3\n", "line 2: the key is there before"),
    ],
)
def test_what_no_file_of_keys_is(tmp_path, text, words):
    (tmp_path / "keys").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        read_keys(tmp_path / "keys")


def test_a_file_of_keys_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(tmp_path / "keys")
