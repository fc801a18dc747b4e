"""Pictures on disk, all of one size, mapped into memory; once, while nothing changes.

A store is a folder: `pixels` (uint8, [pictures, channels, height, width]), `labels` (int64), the same for validation
(`valid.pixels`, `valid.labels`), and `store.json`, written last, with what is known about them.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attendo.data.augmentation import augment
from attendo.data.batching import Indices, Lengths
from attendo.data.noise_settings import PictureNoise
from attendo.data.picture_batch import PictureBatch
from attendo.data.pictures import Pictures, find_pictures, fitted
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.storage import replaced_folder, sha256
from attendo.text.corpus import held_out

FORMAT = 1
FEWEST = 10
SHARE, MOST = 0.05, 5000  # of the pictures, held out for validation


@dataclass(frozen=True)
class PictureSet:
    """Pictures of one size with the numbers of their labels."""

    pixels: NDArray[np.uint8]  # [pictures, channels, height, width]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Indices) -> PictureBatch:
        return PictureBatch(
            pixels_BCYX=torch.from_numpy(self.pixels[indices].astype(np.float32)),
            labels_B=torch.from_numpy(self.labels[indices].astype(np.int64)),
        )


@dataclass(frozen=True)
class PreparedPictures:
    """Pictures ready for training. `facts` says what was read, kept and held out, and what the labels are."""

    folder: Path
    train: PictureSet
    valid: PictureSet
    facts: dict[str, Any]

    tokenizers = None

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.facts["labels"])


@dataclass(frozen=True)
class ChangedPictures:
    """The pictures of a set as training sees them: `n_patches` positions each, changed anew in each epoch."""

    pictures: PictureSet
    n_patches: int
    noise: PictureNoise | None
    seed: int

    def lengths(self, epoch: int = 0) -> tuple[Lengths, Lengths]:  # noqa: ARG002 (always the same)
        n = len(self.pictures)
        return np.full(n, self.n_patches, dtype=np.int32), np.zeros(n, dtype=np.int32)

    def batch(self, indices: Indices, epoch: int = 0) -> PictureBatch:
        batch = self.pictures.batch(indices)
        if self.noise is None:
            return batch
        changed = augment(
            batch.pixels_BCYX, indices, self.noise, n_pictures=len(self.pictures), seed=self.seed, epoch=epoch
        )
        return PictureBatch(pixels_BCYX=changed, labels_B=batch.labels_B)


def prepare_pictures(
    source: str,
    valid_source: str | None,
    *,
    size: tuple[int, int] | None,
    n_channels: int | None,
    cache: Path,
    reporter: Reporter,
) -> PreparedPictures:
    """Finds the pictures in the cache, or reads them and puts them there.

    size and n_channels: height and width, and channels, that all are brought to; None: those of the first picture.
    Without `valid_source` a part is held out, of which no picture is also in the rest.
    """
    found = find_pictures(source)
    given = None if valid_source is None else find_pictures(valid_source)
    valid_digest = None if given is None else given.fingerprint
    key = sha256(json.dumps([FORMAT, found.fingerprint, valid_digest, size, n_channels]).encode())[:16]
    folder = cache / key
    if (prepared := open_pictures(folder)) is not None:
        reporter.say(f"Using the pictures of an earlier run ({folder}).")
        return prepared
    if len(found) < FEWEST:
        raise DataError(f"{source}: {len(found)} pictures are too few. At least {FEWEST} are needed, better thousands.")
    first = found.read(0)
    height, width = size or first.shape[:2]
    shape = (n_channels or (3 if first.ndim == 3 else 1), height, width)
    pixels = _read(found, shape, reporter.track(range(len(found)), "Reading", len(found)))
    train, valid = _divided(found, pixels) if given is None else (_all(found, pixels), _of(given, found, shape, source))
    if not len(valid):
        raise DataError(f"{source}: no picture is left for validation. Give some with --valid-source.")
    facts = {
        "pictures": {"read": len(found), "kept": len(train), "held_out": len(valid)},
        "in_words": {
            "training pictures": f"{len(train):,} of {len(found):,} read, {height} × {width} pixels",
            "validation pictures": f"{len(valid):,} ({'held out' if valid_source is None else valid_source})",
            "labels": ", ".join(found.labels),
        },
        "labels": list(found.labels),
        "size": list(shape),
        "mean": train.pixels.mean(axis=(0, 2, 3)).tolist(),
        "deviation": np.maximum(train.pixels.std(axis=(0, 2, 3)), 1.0).tolist(),
        "fingerprint": found.fingerprint,
        "validation": "held out" if valid_source is None else valid_source,
        "validation_fingerprint": valid_digest,
    }
    cache.mkdir(parents=True, exist_ok=True)
    with replaced_folder(folder) as filled:
        for prefix, part in (("", train), ("valid.", valid)):
            part.pixels.tofile(filled / f"{prefix}pixels")
            part.labels.tofile(filled / f"{prefix}labels")
        (filled / "store.json").write_text(json.dumps({"facts": facts}), encoding="utf-8")
    prepared = open_pictures(folder)
    if prepared is None:
        raise DataError(f"the pictures in {folder} vanished while they were in use. Start again.")
    return prepared


def open_pictures(folder: Path) -> PreparedPictures | None:
    """The pictures that were prepared in a folder, or None where there are no whole ones."""
    try:
        facts = json.loads((folder / "store.json").read_text(encoding="utf-8"))["facts"]
        train, valid = (_open(folder, prefix, facts["size"]) for prefix in ("", "valid."))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = len(train) == facts["pictures"]["kept"] and len(valid) == facts["pictures"]["held_out"]
    return PreparedPictures(folder, train, valid, facts) if whole else None


def _open(folder: Path, prefix: str, size: list[int]) -> PictureSet:
    labels = np.fromfile(folder / f"{prefix}labels", dtype=np.int64)
    pixels = np.memmap(folder / f"{prefix}pixels", dtype=np.uint8, mode="r", shape=(len(labels), *size))
    return PictureSet(pixels, labels)


def _read(found: Pictures, shape: tuple[int, int, int], numbers: Iterable[int]) -> NDArray[np.uint8]:
    n_channels, height, width = shape
    pixels = np.empty((len(found), *shape), dtype=np.uint8)
    for i in numbers:
        pixels[i] = fitted(found.read(i), height=height, width=width, n_channels=n_channels)
    return pixels


def _all(found: Pictures, pixels: NDArray[np.uint8]) -> PictureSet:
    return PictureSet(pixels, found.label_of)


def _of(given: Pictures, found: Pictures, shape: tuple[int, int, int], source: str) -> PictureSet:
    """The validation pictures, with the numbers that the labels have in training."""
    unknown = set(given.labels) - set(found.labels)
    if unknown:
        raise DataError(f"the validation pictures have the label {min(unknown)}, which {source} does not have.")
    numbers = np.array([found.labels.index(name) for name in given.labels])
    return PictureSet(_read(given, shape, range(len(given))), numbers[given.label_of])


def _divided(found: Pictures, pixels: NDArray[np.uint8]) -> tuple[PictureSet, PictureSet]:
    digests = (hashlib.blake2b(one.tobytes(), digest_size=8).digest() for one in pixels)
    hashes = np.fromiter((int.from_bytes(one, "little") for one in digests), dtype=np.uint64, count=len(pixels))
    is_valid = held_out(hashes, share=SHARE, most=MOST)
    return (
        PictureSet(pixels[~is_valid], found.label_of[~is_valid]),
        PictureSet(pixels[is_valid], found.label_of[is_valid]),
    )
