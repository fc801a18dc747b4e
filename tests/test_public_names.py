"""What `import attendo` promises, and that it costs nothing until it is used."""

import importlib
import subprocess
import sys

import pytest

import attendo

PUBLIC = {
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
}


def test_the_public_names_are_these():
    """A name that comes or goes is a decision, made here too."""
    assert set(attendo.__all__) == PUBLIC
    assert attendo.__all__ == sorted(attendo.__all__)
    assert set(dir(attendo)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_every_public_name_is_what_its_home_has(name):
    value = getattr(attendo, name)
    assert value.__name__ == name
    assert getattr(importlib.import_module(value.__module__), name) is value


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError, match="module 'attendo' has no attribute 'lod'"):
        _ = attendo.lod


def loaded_after(program: str) -> set[str]:
    """The top-level modules that a program has loaded at its end."""
    program += "\nimport sys\nprint(' '.join({name.partition('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


def test_importing_attendo_does_not_import_torch():
    assert not loaded_after("import attendo; attendo.__version__; dir(attendo)") & {"torch", "numpy", "tokenizers"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["translate", "--help"], ["inspect", "--help"]]
)
def test_help_is_instant(arguments):
    program = f"""
import sys
sys.argv = ["attendo", *{arguments}]
from attendo.cli.main import run
try:
    run()
except SystemExit as end:
    assert not end.code
"""
    assert not loaded_after(program) & {"torch", "numpy", "tokenizers", "sacrebleu", "transformers"}
