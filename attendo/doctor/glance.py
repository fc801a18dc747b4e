"""The quick look that training takes at its corpus: it refuses what is broken, and tells what else it saw."""

from attendo.doctor.examination import examine
from attendo.doctor.files import count_lines
from attendo.doctor.parting import find_parting
from attendo.doctor.report import command_of, two_lines
from attendo.errors import DataError
from attendo.reporting import Reporter
from attendo.text.corpus import CorpusFiles

MOST = 50_000  # pairs looked at


def glance(files: CorpusFiles, reporter: Reporter) -> None:
    """Refuses files of unequal length, with the line where they part; says in two lines what the first pairs have."""
    if files.target is not None:
        counts = count_lines(files.source), count_lines(files.target)
        if 0 in counts:
            return  # reading them says it
        if counts[0] != counts[1]:
            line = find_parting(files, *(reversed(counts) if files.reverse else counts)).line
            raise DataError(
                f"{files.source} has {counts[0]:,} lines and {files.target} has {counts[1]:,}: line i of the one has "
                "to be the translation of line i of the other. Most likely they part at line "
                f"{line + 1:,}; see both there with: attendo check {command_of(files)}"
            )
    for line_said in two_lines(examine(files, quick=True, most=MOST), asked=MOST):
        reporter.say(line_said)
