"""Pictures with labels, from where they are kept: a folder for each label, IDX files, or one NPZ file.

a folder of folders          every inner folder is a label, and every picture in it, at whatever depth, has it
…-images-idx3-ubyte          MNIST's format, compressed (.gz) or not, with …-labels-idx1-ubyte beside it
a folder with train-images…  the same
FILE.npz                     `images`, uint8 [n, height, width] or [n, height, width, channels], and `labels` [n]
"""

import gzip
import hashlib
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from attendo.errors import DataError

Picture = NDArray[np.uint8]  # [height, width] or [height, width, 3]
ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"})
PARTS = frozenset({"train", "training", "val", "valid", "validation", "dev", "test"})  # of data, which are no labels
IMAGES, LABELS, TRAINING = "images-idx3-ubyte", "labels-idx1-ubyte", "train-images-idx3-ubyte"


@dataclass(frozen=True)
class Pictures:
    """What was found: the labels by name, the number of each picture's label, and how a picture is read."""

    labels: tuple[str, ...]
    label_of: NDArray[np.int64]
    read: Callable[[int], Picture]
    fingerprint: str  # of everything that decides it

    def __len__(self) -> int:
        return len(self.label_of)

    def __iter__(self) -> Iterator[Picture]:
        return (self.read(i) for i in range(len(self)))


def find_pictures(path: Path | str) -> Pictures:
    """The pictures that a folder or a file holds."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"there are no pictures {path}: it does not exist. Check the path.")
    if path.is_dir():
        digits = training_digits(path)
        return _from_folders(path) if digits is None else _from_idx(digits)
    if path.suffix == ".npz":
        return _from_npz(path)
    if IMAGES in path.name:
        return _from_idx(path)
    raise DataError(
        f"{path} is neither a folder with a folder for each label, nor an IDX file (…-{IMAGES}), nor an NPZ file."
    )


def training_digits(folder: Path) -> Path | None:
    """The file with MNIST's training part that a folder holds, if it does."""
    return next((path for name in (TRAINING, f"{TRAINING}.gz") if (path := folder / name).exists()), None)


def read_picture(path: Path | str) -> Picture:
    """The pixels of one file: [height, width] where it is grey, [height, width, 3] where it has colours."""
    try:
        with Image.open(path) as image:
            grey = image.mode in ("1", "L", "LA", "I", "I;16", "F")
            return np.asarray(image.convert("L" if grey else "RGB"))
    except FileNotFoundError:
        raise DataError(f"there is no picture {path}. Check the path.") from None
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as a picture: {error}") from None


def fitted(picture: Picture, *, height: int, width: int, n_channels: int) -> NDArray[np.uint8]:
    """The picture in that size and with that many channels, 1 or 3: [channels, height, width]."""
    image = Image.fromarray(picture).convert("L" if n_channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)
    return pixels[None] if n_channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _from_folders(path: Path) -> Pictures:
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    files: list[Path] = []
    label_of: list[int] = []
    labels: list[str] = []
    for folder in folders:
        inside = sorted(file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS)
        if inside:
            label_of += [len(labels)] * len(inside)
            labels.append(folder.name)
            files += inside
    if len(labels) < 2:
        raise DataError(
            f"{path} must have a folder for each label with pictures in it ({', '.join(sorted(ENDINGS))}), at least "
            f"two; {len(labels)} found."
        )
    if {label.lower() for label in labels} <= PARTS:
        raise DataError(
            f"{path} has the folders {', '.join(labels)}, which are parts of the data and no labels. Give one of them, "
            f"{path / labels[0]}, and another for validation (--valid-source)."
        )
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(path)}\0".encode())
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return Pictures(tuple(labels), np.array(label_of), lambda i: read_picture(files[i]), whole.hexdigest())


def _from_idx(path: Path) -> Pictures:
    labels_path = path.with_name(path.name.replace(IMAGES, LABELS))
    return _from_arrays(path, _read_idx(path, n_axes=3), _read_idx(labels_path, n_axes=1))


def _read_idx(path: Path, *, n_axes: int) -> NDArray[np.uint8]:
    """Two zeros, 8 for uint8, the number of axes; their sizes as 32 bits each, the largest byte first; the values."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        kind, axes = struct.unpack(">HBB", content[:4])[1:]
        shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
        if (kind, axes) != (8, n_axes):
            raise ValueError(f"it holds {axes} axes of type {kind}, not {n_axes} of type 8")
        return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)
    except (OSError, EOFError, ValueError, struct.error) as error:
        raise DataError(f"{path} cannot be read as an IDX file: {error}") from None


def _from_npz(path: Path) -> Pictures:
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            there = [name.removesuffix(".npy") for name in archive.namelist()]
            if not {"images", "labels"} <= set(there):
                raise DataError(f"{path} must hold the arrays images and labels, and holds {', '.join(there)}.")
            for name in ("images", "labels"):
                with archive.open(f"{name}.npy") as stream:
                    # Not numpy's own loader of archives, which may unpickle.
                    arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as an NPZ file: {error}") from None
    images, labels = arrays["images"], arrays["labels"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise DataError(
            f"{path}: images are {images.dtype} {list(images.shape)}, and must be uint8 [n, height, width] or "
            "[n, height, width, 3]."
        )
    return _from_arrays(path, images, labels)


def _from_arrays(path: Path, images: NDArray[np.uint8], given: NDArray[Any]) -> Pictures:
    if given.shape != images.shape[:1]:
        raise DataError(f"{path}: there are {len(images)} pictures, and labels of shape {list(given.shape)}.")
    names, label_of = np.unique(given, return_inverse=True)
    if len(names) < 2:
        raise DataError(f"{path}: all {len(images)} pictures have the same label, and at least two are needed.")
    whole = hashlib.sha256(repr((images.shape, given.dtype.str)).encode())
    whole.update(np.ascontiguousarray(images).data)
    whole.update(np.ascontiguousarray(given).data)
    return Pictures(
        tuple(str(name) for name in names), label_of.astype(np.int64), lambda i: images[i], whole.hexdigest()
    )
