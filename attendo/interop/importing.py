"""A Hugging Face folder → a bundle."""

from pathlib import Path

from attendo.bundle import Bundle
from attendo.interop.folder import open_folder
from attendo.reporting import Reporter


def import_model(
    folder: Path | str,
    *,
    out: Path | str,
    source_language: str | None = None,
    target_language: str | None = None,
    reporter: Reporter | None = None,
) -> Bundle:
    """Makes a bundle of a model that others have trained; nothing of its folder is ever executed.

    A model of many languages is imported for one pair of them, by the names it has for them.
    """
    open_folder(folder)
    raise NotImplementedError
