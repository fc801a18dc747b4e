"""attendo: from two text files to a translator.

import attendo
translator = attendo.load("runs/en-de-1")
translator.translate("A man rides a bicycle.").text
"""

import os as _os

# Must be set before torch starts its threads. They wait for each other by spinning, by default so long that another
# program on the same cores made a training step more than ten times slower. This short, the step is only halved then,
# and on an idle machine it costs a tenth.
_os.environ.setdefault("GOMP_SPINCOUNT", "3000")

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from attendo.alignment.aligner import Aligner
    from attendo.bundle import Bundle, open_bundle
    from attendo.classifier import TextClassifier
    from attendo.decoding.search import SearchOptions
    from attendo.drafting import Candidate, Translation
    from attendo.errors import AttendoError
    from attendo.filler import Embedder, Filler
    from attendo.generator import Generator
    from attendo.inspection.inspector import Inspection
    from attendo.inspection.looking import inspect
    from attendo.inspection.reading import Reading
    from attendo.interop.importing import import_model
    from attendo.pictures import PictureClassifier
    from attendo.run import resume, train
    from attendo.translator import PairScore, Translator, load

_HOMES = {
    "Aligner": "attendo.alignment.aligner",
    "AttendoError": "attendo.errors",
    "Bundle": "attendo.bundle",
    "Candidate": "attendo.drafting",
    "Embedder": "attendo.filler",
    "Filler": "attendo.filler",
    "Generator": "attendo.generator",
    "Inspection": "attendo.inspection.inspector",
    "PairScore": "attendo.translator",
    "PictureClassifier": "attendo.pictures",
    "Reading": "attendo.inspection.reading",
    "SearchOptions": "attendo.decoding.search",
    "TextClassifier": "attendo.classifier",
    "Translation": "attendo.drafting",
    "Translator": "attendo.translator",
    "import_model": "attendo.interop.importing",
    "inspect": "attendo.inspection.looking",
    "load": "attendo.translator",
    "open_bundle": "attendo.bundle",
    "resume": "attendo.run",
    "train": "attendo.run",
}

__all__ = [
    "Aligner",
    "AttendoError",
    "Bundle",
    "Candidate",
    "Embedder",
    "Filler",
    "Generator",
    "Inspection",
    "PairScore",
    "PictureClassifier",
    "Reading",
    "SearchOptions",
    "TextClassifier",
    "Translation",
    "Translator",
    "__version__",
    "import_model",
    "inspect",
    "load",
    "open_bundle",
    "resume",
    "train",
]


def __getattr__(name: str) -> _Any:
    """The public names, imported when first used: `import attendo` alone does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attendo' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
