"""What training says of its corpus: where unequal files part, and what a quick look at the first pairs saw."""

from attendo.doctor.examination import examine
from attendo.doctor.parting import find_parting
from attendo.doctor.report import command_of, two_lines
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.text.corpus import CorpusFiles, UnequalError

MOST = 50_000  # pairs looked at


def explained(error: UnequalError) -> DataError:
    """The same error, with the line where the files part."""
    files = CorpusFiles(source=error.source, target=error.target)
    line = find_parting(files, error.n_source, error.n_target).line + 1
    return DataError(
        f"{error} Most likely they part at line {line:,}; see both there with: attendo check {command_of(files)}"
    )


def glance(files: CorpusFiles, reporter: Reporter) -> None:
    """Says in two lines what the first pairs have, if anything."""
    for line in two_lines(examine(files, quick=True, most=MOST), asked=MOST):
        reporter.say(line)
