"""Corpora for these tests: the built-in sample, and what is done to it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attendo.sample.corpus import make_sample
from attendo.text.corpus import CorpusFiles, Pair


@cache
def sample_pairs() -> tuple[Pair, ...]:
    """1,500 sentences and their translations, all different."""
    return tuple((sentence.english, sentence.german) for sentence in make_sample(pairs=1500).train)


def write_pairs(folder: Path, pairs: Sequence[Pair], name: str = "train") -> CorpusFiles:
    """Two files of these pairs, as they are."""
    folder.mkdir(exist_ok=True, parents=True)
    paths = [folder / f"{name}.{language}" for language in ("en", "de")]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_bytes("".join(f"{text}\n" for text in side).encode("utf-8"))
    return CorpusFiles(source=str(paths[0]), target=str(paths[1]))
