"""The rule of the flow: a module imports only what comes before it. Lazy imports included, no exceptions."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import attendo

ROOT = Path(attendo.__file__).parent

# The flow. `attendo` itself is the public face, `__init__.py`; `__main__` only starts the command line.
ORDER = (
    "errors",
    "reporting",
    "config",
    "native",
    "machine",
    "storage",
    "text",
    "documents",
    "doctor",
    "nn",
    "data",
    "models",
    "training",
    "recipe",
    "decoding",
    "card",
    "bundle",
    "drafting",
    "engines",
    "mending",
    "alignment",
    "evaluation",
    "translator",
    "generator",
    "filler",
    "classifier",
    "pictures",
    "assessment",
    "validation",
    "inspection",
    "sample",
    "plan",
    "tasks",
    "teamwork",
    "pace",
    "run",
    "interop",
    "attendo",
    "serving",
    "cli",
    "__main__",
)


def module_name(path: Path) -> str:
    parts = ["attendo", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in SOURCES.items()}


def place(module: str) -> str:
    """The name in the flow that a module belongs to: attendo.text.corpus -> text."""
    return module.split(".")[1] if "." in module else module


def imports(module: str, tree: ast.Module | None = None) -> Iterator[str]:
    """The full names of all modules that a module imports, wherever in it the import stands."""
    package = module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree or TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            # `from package import name` imports the module of that name, if there is one.
            yield from (full if (full := f"{base}.{alias.name}") in SOURCES else base for alias in node.names)


def own_imports(module: str) -> set[str]:
    return {name for name in imports(module) if name.split(".")[0] == "attendo"}


def tops(module: str) -> set[str]:
    """The libraries that a module imports."""
    return {name.split(".")[0] for name in imports(module)}


def modules_of(package: str) -> list[str]:
    return [module for module in SOURCES if place(module) == package]


def test_every_module_is_in_the_flow_and_the_flow_has_no_other_names():
    assert {place(module) for module in SOURCES} == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_imports_only_what_comes_before_it(module):
    later = {
        name
        for name in own_imports(module)
        if place(name) != place(module) and ORDER.index(place(name)) > ORDER.index(place(module))
    }
    assert not later, f"{module} imports {', '.join(sorted(later))}, which comes after it"


def test_what_is_imported_exists():
    missing = {(module, name) for module in SOURCES for name in own_imports(module) if name not in SOURCES}
    assert not missing


def test_no_imports_in_a_circle():
    try:
        TopologicalSorter({module: own_imports(module) - {module} for module in SOURCES}).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


def test_text_is_read_before_it_is_paired():
    for module in ("attendo.text.corpus", "attendo.text.tokenizer", "attendo.text.segments"):
        assert not {name for name in own_imports(module) if place(name) == "text"}, module


def test_modules_are_imported_by_name_only_for_the_public_names_and_the_commands():
    """Elsewhere `import_module` could go round the rule; these two lead to modules that come before, or to the cli."""
    asked = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
        or (isinstance(node, ast.Attribute) and node.attr == "import_module")
    }
    assert asked == {"attendo", "attendo.cli.main"}
    for home in attendo._HOMES.values():
        assert home in SOURCES
        assert ORDER.index(place(home)) < ORDER.index("attendo")


@pytest.mark.parametrize("module", modules_of("cli"))
def test_the_command_line_has_no_torch(module):
    assert "torch" not in tops(module)


@pytest.mark.parametrize("module", modules_of("nn"))
def test_nn_knows_no_configs(module):
    assert {place(name) for name in own_imports(module)} <= {"nn", "native", "errors"}
    assert not any(isinstance(node, ast.Name) and node.id == "Settings" for node in ast.walk(TREES[module]))


@pytest.mark.parametrize("module", modules_of("decoding"))
def test_search_takes_a_step_function_never_a_model(module):
    assert {place(name) for name in own_imports(module)} <= {"decoding", "config", "errors", "text"}


@pytest.mark.parametrize("module", SOURCES)
def test_the_toolkits_of_others_are_not_needed(module):
    assert not tops(module) & {"transformers", "huggingface_hub", "argostranslate"}


@pytest.mark.parametrize("module", SOURCES)
def test_nothing_is_pickled(module):
    assert not tops(module) & {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save"), ("np", "load")}


def test_names_say_what_is_inside():
    forbidden = {"util", "utils", "helper", "helpers", "misc", "common"}
    assert not [module for module in SOURCES if forbidden & set(module.replace("_", ".").split("."))]


class TestTheWalk:
    """That the rule above sees what it has to see."""

    @pytest.mark.parametrize(
        ("code", "found"),
        [
            ("import attendo.run", {"attendo.run"}),
            ("from attendo import run", {"attendo.run"}),
            ("from attendo import __version__", {"attendo"}),
            ("from attendo.run import train", {"attendo.run"}),
            ("def f():\n    from attendo.run import train", {"attendo.run"}),
            ("if TYPE_CHECKING:\n    import attendo.run as later", {"attendo.run"}),
            ("from . import tokenizer", {"attendo.text.tokenizer"}),
            ("from .pair import TokenizerPair", {"attendo.text.pair"}),
            ("from ..run import train", {"attendo.run"}),
            ("from .. import run", {"attendo.run"}),
        ],
    )
    def test_finds_every_way_to_import(self, code, found):
        assert set(imports("attendo.text.corpus", ast.parse(code))) == found
