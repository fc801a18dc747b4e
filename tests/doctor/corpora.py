"""Corpora for these tests: the built-in sample, and what is done to it."""

from collections.abc import Sequence
from pathlib import Path

from attendo.sample import write_sample
from attendo.text.corpus import CorpusFiles, Pair, read_pairs


def sample_pairs(folder: Path, n: int) -> list[Pair]:
    write_sample(folder, pairs=n)
    return list(read_pairs(CorpusFiles(source=str(folder / "train.en"), target=str(folder / "train.de"))))


def write_pairs(folder: Path, pairs: Sequence[Pair], name: str = "train") -> CorpusFiles:
    """Two files of these pairs, as they are."""
    folder.mkdir(exist_ok=True, parents=True)
    paths = [folder / f"{name}.{language}" for language in ("en", "de")]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_bytes("".join(f"{text}\n" for text in side).encode("utf-8"))
    return CorpusFiles(source=str(paths[0]), target=str(paths[1]))
