"""The table of docs/doctor.md is the table of the code."""

import re
from pathlib import Path

from attendo.doctor.findings import KINDS

PAGE = Path(__file__).parent.parent.parent / "docs/doctor.md"


def test_every_kind_is_in_the_table_with_what_cleaning_does():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (drops|repairs|reports) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    plain = [(name, what.replace("`", ""), action, why.replace("`", "")) for name, what, action, why in rows]
    assert plain == [(kind.name, kind.title + " (broken)" * kind.broken, f"{kind.action}s", kind.why) for kind in KINDS]
