"""Writing so that nothing is ever half there: beside, synced, renamed. Tensors with their checksum."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from attendo.errors import BundleError, StorageError


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


def write_file(path: Path, content: bytes | str) -> None:
    """Puts a file in place of the old one, whole or not at all."""
    with storage_errors(path), _replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """A safetensors file whose metadata hold the facts as JSON and the SHA-256 of facts and tensors.

    The metadata have one key only: safetensors writes several in an order that changes from process to process, and the
    same tensors are to give the same bytes.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    with storage_errors(path), _replacing(path) as temporary:
        about = json.dumps({"facts": text, "sha256": _digest(plain, text)})
        # Not save_file: that makes files which nobody but their owner can read.
        temporary.write_bytes(save(plain, metadata={"attendo": about}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The tensors and facts of such a file, checked."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            about = json.loads(metadata.get("attendo", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)
    except FileNotFoundError:
        raise BundleError(f"{path} is missing. The bundle is not whole: copy it again from where it came.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise BundleError(f"{path} is damaged ({error}). Copy the bundle again from where it came.") from None
    facts = about.get("facts", "{}")
    if about.get("sha256") != _digest(tensors, facts):
        raise BundleError(f"{path} is damaged: its checksum does not match. Copy the bundle again from where it came.")
    return tensors, json.loads(facts)


def link_file(existing: Path, path: Path) -> None:
    """Puts `existing` also under the name `path`, without a second copy where the file system can."""
    with storage_errors(path), _replacing(path) as temporary:
        try:
            os.link(existing, temporary)
        except OSError:
            shutil.copyfile(existing, temporary)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    whole = hashlib.sha256(facts.encode("utf-8"))
    for name in sorted(tensors):
        tensor = tensors[name]
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():
            whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
