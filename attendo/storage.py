"""Writing so that nothing is ever half there: beside, synced, renamed. Tensors with their checksum.

torch and numpy are imported by the functions that need them, so that a bundle can be opened without either.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from safetensors import SafetensorError, safe_open

from attendo.errors import BundleError, StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

LEFT_BEHIND = 3600.0  # seconds after which a folder that nobody renamed was left by a crash


def require_new(path: Path, *, option: str = "--out") -> None:
    """That nothing is in the way, before any work is done; `option` is what chooses another place."""
    if path.exists():
        raise BundleError(f"{path} exists already. Choose another folder with {option}, or remove it first.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which appears under `path` when the block ends well, and leaves nothing behind otherwise."""
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors(path):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in sorted(temporary.rglob("*")):
                _sync(file)
            _sync(temporary)
            if path.exists():
                raise BundleError(f"{path} exists already. Choose another folder, or remove it first.")
            temporary.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `path`, if there is one, when the block ends well.

    Several processes may do this at the same time: each fills a folder of its own, and the last one stays.
    """
    temporary, old = (path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial") for _ in range(2))
    with storage_errors(path):
        temporary.mkdir()
        try:
            yield temporary
            for file in (*sorted(temporary.rglob("*")), temporary):
                _sync(file)
            for _ in range(100):  # somebody else's may appear between the two renamings
                with contextlib.suppress(FileNotFoundError):
                    path.rename(old)
                try:
                    temporary.rename(path)
                    break
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                shutil.rmtree(old, ignore_errors=True)
            else:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            _sync(path.parent)
        finally:
            for folder in (temporary, old):
                shutil.rmtree(folder, ignore_errors=True)
            clear_away(path)


def clear_away(path: Path) -> None:
    """Removes what crashes left of such folders, and not what others are still filling."""
    for folder in list(path.parent.glob(f".{path.name}.*.partial")):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(folder, ignore_errors=True)


def write_file(path: Path, content: bytes | str) -> None:
    """Puts a file in place of the old one, whole or not at all."""
    with storage_errors(path), _replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", facts: Mapping[str, Any]) -> None:
    """A safetensors file whose metadata hold the facts as JSON and the SHA-256 of facts and tensors.

    The metadata have one key only: safetensors writes several in an order that changes from process to process, and the
    same tensors are to give the same bytes.
    """
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    with storage_errors(path), _replacing(path) as temporary:
        about = json.dumps({"facts": text, "sha256": _digest(_described(plain), text)})
        # Not save_file: that makes files which nobody but their owner can read.
        temporary.write_bytes(save(plain, metadata={"attendo": about}))


def read_tensors(path: Path) -> "tuple[dict[str, Tensor], Any]":
    """The tensors and facts of such a file, checked."""
    tensors, about = _read(path, "pt")
    facts = about.get("facts", "{}")
    if about.get("sha256") != _digest(_described(tensors), facts):
        raise _damaged(path)
    return tensors, json.loads(facts)


def read_arrays(path: Path) -> "tuple[dict[str, NDArray[np.float32]], str]":
    """The tensors of such a file as numpy arrays, and their checksum; without torch."""
    arrays, about = _read(path, "np")
    described = {
        name: (f"torch.{array.dtype}", array.shape, array.reshape(-1).view("u1").data) for name, array in arrays.items()
    }
    checksum = about.get("sha256")
    if checksum is None or checksum != _digest(described, about.get("facts", "{}")):
        raise _damaged(path)
    return arrays, checksum


def tensors_checksum(path: Path) -> str:
    """The checksum that such a file names, from its first bytes alone: what it is of is neither read nor checked."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= path.stat().st_size:
                raise ValueError("its header does not say how long it is")
            return str(json.loads(json.loads(file.read(length))["__metadata__"]["attendo"])["sha256"])
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path} is damaged ({error}). Copy the bundle again from where it came.") from None


def _read(path: Path, framework: Literal["pt", "np"]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors, what the metadata say), neither checked."""
    try:
        with safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            about = json.loads(metadata.get("attendo", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 (it is not a dict)
    except FileNotFoundError:
        raise _missing(path) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise BundleError(f"{path} is damaged ({error}). Copy the bundle again from where it came.") from None


def _missing(path: Path) -> BundleError:
    return BundleError(f"{path} is missing. The bundle is not whole: copy it again from where it came.")


def _damaged(path: Path) -> BundleError:
    return BundleError(f"{path} is damaged: its checksum does not match. Copy the bundle again from where it came.")


def link_file(existing: Path, path: Path) -> None:
    """Puts `existing` also under the name `path`, without a second copy where the file system can."""
    with storage_errors(path), _replacing(path) as temporary:
        try:
            os.link(existing, temporary)
        except OSError:
            shutil.copyfile(existing, temporary)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Says in words what the operating system says in numbers."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = error.errno if isinstance(error, OSError) else None
        if code in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise StorageError(f"the disk is full: {path} could not be written. Make room and try again.") from None
        if code in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StorageError(f"{path} cannot be written: {os.strerror(code)}. Choose another folder.") from None
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"{path} could not be written: {reason}.") from None


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.partial")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_Described = tuple[str, tuple[int, ...], memoryview]  # a tensor's type, shape and bytes


def _described(tensors: "Mapping[str, Tensor]") -> dict[str, _Described]:
    import torch

    return {
        name: (
            str(tensor.dtype),
            tuple(tensor.shape),
            tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b""),
        )
        for name, tensor in tensors.items()
    }


def _digest(tensors: Mapping[str, _Described], facts: str) -> str:
    whole = hashlib.sha256(facts.encode("utf-8"))
    for name in sorted(tensors):
        kind, shape, content = tensors[name]
        whole.update(f"{name} {kind} {shape}".encode())
        whole.update(content)
    return whole.hexdigest()
