"""A corpus without its faults, in new files; what was left out, and why, beside it."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.examination import Examination, examine
from attendo.doctor.files import read_chunks
from attendo.doctor.findings import BY_NAME
from attendo.doctor.repair import repair
from attendo.reporting import Reporter, Silent
from attendo.storage import new_folder, require_new
from attendo.text.corpus import CorpusFiles, languages_of

REJECTED = "rejected.tsv"
HEADING = "line\treasons\tsource\ttarget\n"
# In rejected.tsv a row is a line and a tab ends a cell, whatever is in the text.
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Cleaned:
    """What cleaning has made: the new files, and how many pairs were kept, of which repaired, and left out."""

    folder: str
    source: str
    target: str
    kept: int
    repaired: int
    dropped: int
    rounds: int


def clean(
    examination: Examination,
    folder: Path,
    *,
    valid: CorpusFiles | None = None,
    test: CorpusFiles | None = None,
    reporter: Reporter | None = None,
) -> Cleaned:
    """Writes clean.* and rejected.tsv, which together have every pair; the folder appears when all of it is there.

    What is left is examined again, and again cleaned, until nothing more is found: of a cleaner corpus other things are
    usual. So cleaning what was cleaned changes nothing.
    """
    require_new(folder, option="--clean")
    reporter = reporter or Silent()
    endings = languages_of(examination.files) or ("source", "target")
    if endings[0] == endings[1]:
        endings = ("source", "target")
    names = [f"clean.{ending}" for ending in endings]
    with new_folder(folder) as fresh:
        numbers = np.arange(len(examination.findings))  # in the corpus as it was given
        repaired = np.zeros(len(numbers), dtype=np.bool_)
        (fresh / REJECTED).write_text(HEADING, encoding="utf-8")
        rounds = 0
        while True:
            rounds += 1
            changed = _write(examination, fresh, names, numbers)
            repaired[numbers[changed]] = True
            dropped = examination.dropped
            numbers = numbers[~dropped]
            if not len(numbers) or not (dropped.any() or len(changed)):
                break
            files = CorpusFiles(source=str(fresh / names[0]), target=str(fresh / names[1]))
            reporter.say(f"Dropped {np.count_nonzero(dropped):,}, repaired {len(changed):,}; looking again.")
            examination = examine(
                files, valid=valid, test=test, quick=examination.quick, pieces=False, reporter=reporter
            )
    kept = len(numbers)
    return Cleaned(
        folder=str(folder),
        source=str(folder / names[0]),
        target=str(folder / names[1]),
        kept=kept,
        repaired=int(np.count_nonzero(repaired[numbers])),
        dropped=len(repaired) - kept,
        rounds=rounds,
    )


def _write(examination: Examination, folder: Path, names: list[str], numbers: Numbers) -> Numbers:
    """Writes the kept pairs anew and adds the others to rejected.tsv; returns which of those kept were changed."""
    dropped, repaired, findings = examination.dropped, examination.repaired, examination.findings
    changed: list[int] = []
    with ExitStack() as stack:

        def opened(name: str, mode: str) -> IO[str]:
            return stack.enter_context((folder / name).open(mode, encoding="utf-8", newline="\n"))

        source_file, target_file = (opened(f"{name}.new", "w") for name in names)
        rejected = opened(REJECTED, "a")
        for chunk in read_chunks(examination.files):
            for within in range(len(chunk)):
                number = chunk.first + within
                source, target = chunk.pair(within)
                if dropped[number]:
                    reasons = ",".join(name for name in findings.names(number) if BY_NAME[name].action == "drop")
                    cells = (str(numbers[number] + 1), reasons, source.translate(_ESCAPED), target.translate(_ESCAPED))
                    rejected.write("\t".join(cells) + "\n")
                    continue
                if repaired[number]:
                    better = repair(source), repair(target)
                    if better != (source, target):
                        changed.append(number)
                    source, target = better
                source_file.write(_ended(source))
                target_file.write(_ended(target))
    for name in names:
        (folder / f"{name}.new").replace(folder / name)
    return np.array(changed, dtype=np.int64)


def _ended(text: str) -> str:
    """A line of a file. One that ended with a carriage return would lose it when it is read again."""
    return text.rstrip("\r \t") + "\n"
