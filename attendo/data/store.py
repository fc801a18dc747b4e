"""Pairs of ids on disk, mapped into memory: the corpus may be larger than the machine's RAM.

A store is a folder: `source.ids`, `target.ids` (all ids of a side, end to end), `source.ends`, `target.ends` (where
each pair ends, int64), and `store.json` with what is known about them. It is written beside and renamed, so that a
folder with `store.json` is whole.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from attendo.data.batch import Batch, batch_of
from attendo.storage import write_file

ABANDONED_SECONDS = 24 * 3600

Ids = NDArray[np.uint32]


@dataclass(frozen=True)
class Side:
    """All sequences of one side."""

    ids: Ids
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> Ids:
        return self.ids[0 if i == 0 else self.ends[i - 1] : self.ends[i]]

    def lengths(self) -> NDArray[np.int32]:
        return np.diff(self.ends, prepend=0).astype(np.int32)

    def end_to_end(self, indices: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of these sequences one after the other, and how many each has; nothing else is read."""
        places, counts = places_of(self.ends, indices)
        return self.ids[places], counts


def places_of(ends: NDArray[np.int64], indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where these of many sequences stand that lie end to end: every place, and how many each sequence has."""
    starts = np.where(indices > 0, ends[indices - 1], 0)
    counts = ends[indices] - starts
    before = np.cumsum(counts) - counts  # places of the sequences before each
    return np.repeat(starts - before, counts) + np.arange(counts.sum()), counts


def in_parts(rows: Sequence[list[int]], longest: int) -> list[list[int]]:
    """The sequences, those cut that are longer than that."""
    return [ids[i : i + longest] for ids in rows for i in range(0, len(ids), longest)]


@dataclass(frozen=True)
class PairStore:
    """Pairs of sequences of ids, without control ids."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, epoch: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # noqa: ARG002 (always the same)
        return self.source.lengths(), self.target.lengths()

    def batch(self, indices: Sequence[int] | NDArray[np.int64], epoch: int = 0) -> Batch:  # noqa: ARG002
        chosen = np.asarray(indices, dtype=np.int64)
        return batch_of(self.source.end_to_end(chosen), self.target.end_to_end(chosen))


class StoreWriter:
    """Appends pairs to a folder; the folder appears under its name only when all went well.

    Two runs may write the same store at once: each writes beside under a name of its own, and the first to finish
    stays.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, IO[bytes]] = {}
        self.ends = {"source": 0, "target": 0}

    def __enter__(self) -> "StoreWriter":
        self.made = [parent for parent in self.folder.parents if not parent.exists()]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._clear_old()
        self.temporary = Path(mkdtemp(prefix=f".{self.folder.name}.", suffix=".partial", dir=self.folder.parent))
        for side in self.ends:
            for what in ("ids", "ends"):
                self.files[f"{side}.{what}"] = (self.temporary / f"{side}.{what}").open("wb")
        return self

    def append(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
        for side, rows in (("source", sources), ("target", targets)):
            ends = self.ends[side] + np.cumsum([len(row) for row in rows], dtype=np.int64)
            if len(ends):
                count = int(ends[-1]) - self.ends[side]
                ids = np.fromiter(chain.from_iterable(rows), dtype=np.uint32, count=count)
                self.files[f"{side}.ids"].write(ids.data)
                self.files[f"{side}.ends"].write(ends.data)
                self.ends[side] = int(ends[-1])

    def finish(self, facts: dict[str, Any]) -> None:
        """Everything was appended; `facts` are kept beside it."""
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        write_file(self.temporary / "store.json", json.dumps(facts, ensure_ascii=False))
        if open_store(self.folder) is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.temporary.rename(self.folder)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for file in self.files.values():
            with contextlib.suppress(OSError):  # a full disk, which was reported when it was met
                file.close()
        shutil.rmtree(self.temporary, ignore_errors=True)
        if kind is not None:
            with contextlib.suppress(OSError):  # not empty: somebody else works there
                for parent in self.made:
                    parent.rmdir()

    def _clear_old(self) -> None:
        """Removes what a run that was killed has left. What is younger may belong to one that is still at work."""
        for partial in self.folder.parent.glob(f".{self.folder.name}.*.partial"):
            if time.time() - partial.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(partial, ignore_errors=True)


def open_store(folder: Path) -> tuple[PairStore, dict[str, Any]] | None:
    """The store in a folder with its facts, or None where there is no whole one."""
    try:
        facts = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        store = PairStore(_open_side(folder, "source"), _open_side(folder, "target"))
    except (OSError, ValueError):
        return None
    whole = len(store.source) == len(store.target) and all(
        len(side.ids) == (int(side.ends[-1]) if len(side) else 0) for side in (store.source, store.target)
    )
    return (store, facts) if whole else None


def _open_side(folder: Path, side: str) -> Side:
    return Side(_mapped(folder / f"{side}.ids", np.uint32), _mapped(folder / f"{side}.ends", np.int64))


def _mapped(path: Path, kind: type[np.generic]) -> NDArray[Any]:
    if path.stat().st_size == 0:  # nothing can be mapped
        return np.zeros(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")
