"""CTranslate2's copy of a bundle's weights: made when it is first needed, and kept inside the bundle.

    ctranslate2/attendo.json   which weights it was made from, and checksums of the other files
    ctranslate2/…              what `write_model` writes

It is made again when it is not there, not whole, or not of the weights that the bundle has now. torch is not needed.
"""

import contextlib
import functools
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from attendo.bundle import Bundle, plain_json
from attendo.engines.ctranslate2_engine import CTranslate2Engine
from attendo.engines.engine import Precision
from attendo.errors import BundleError, StorageError
from attendo.models.settings import TransformerConfig
from attendo.reporting import Reporter, Silent
from attendo.storage import clear_away, replaced_folder, sha256_of_file, tensors_checksum

if TYPE_CHECKING:
    from attendo.engines.ctranslate2_model import Array

FOLDER, ABOUT = "ctranslate2", "attendo.json"
WRITER = 1  # one more whenever `write_model` writes something else for the same weights


def open_ctranslate2(
    bundle: Bundle, *, precision: Precision = "float32", reporter: Reporter | None = None
) -> CTranslate2Engine:
    """The CTranslate2 engine with a bundle's model.

    Where the bundle cannot be written, the copy is made in a temporary folder, which is gone again once it is loaded.
    """
    folder, wanted = bundle.path / FOLDER, tensors_checksum(bundle.weights_file)
    engine = functools.partial(CTranslate2Engine, precision=precision, before=bundle.tokenizers.target.before)
    clear_away(folder)
    if _is_whole(folder, wanted):
        try:
            return engine(folder)
        except (OSError, RuntimeError):  # damaged, or another process is just replacing it; or neither
            if _is_whole(folder, wanted, every_byte=True):
                return engine(folder)
    weights, checksum = bundle.arrays()
    try:
        with replaced_folder(folder) as new:
            _write(bundle, weights, checksum, new)
            return engine(new)  # what cannot be loaded is not kept
    except StorageError as error:
        with tempfile.TemporaryDirectory() as temporary:
            _write(bundle, weights, checksum, Path(temporary))
            opened = engine(Path(temporary))
        (reporter or Silent()).say(f"{error} The ctranslate2 engine's copy of the model is made anew each time.")
        return opened


def _is_whole(folder: Path, weights: str, *, every_byte: bool = False) -> bool:
    """Whether the folder has all that was written for these weights.

    The record is written last. A file that is not newer has not been touched since; only what is newer is read, as all
    is with `every_byte`. If that is in order, the record is as of now, and the next one need not read it again.
    """
    record = folder / ABOUT
    try:
        about, written = json.loads(record.read_text(encoding="utf-8")), record.stat().st_mtime_ns
        if (about["writer"], about["weights"]) != (WRITER, weights):
            return False
        files = {folder / name: checksum for name, checksum in about["checksums"].items()}
        suspects = [file for file in files if file.stat().st_mtime_ns > written or every_byte]
        if any(sha256_of_file(file) != files[file] for file in suspects):
            return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    if suspects:
        with contextlib.suppress(OSError):  # a folder that may only be read is read again each time
            os.utime(record)
    return True


def _write(bundle: Bundle, weights: "dict[str, Array]", checksum: str, folder: Path) -> None:
    from attendo.engines.ctranslate2_model import write_model

    try:
        config = bundle.config.model
        assert isinstance(config, TransformerConfig)  # others are not representable
        write_model(config, weights, folder)
    except BundleError as error:
        raise BundleError(f"{bundle.path}: {error}") from None
    checksums = {path.name: sha256_of_file(path) for path in sorted(folder.iterdir())}
    about = {"writer": WRITER, "weights": checksum, "checksums": checksums}
    (folder / ABOUT).write_text(plain_json(about), encoding="utf-8")
