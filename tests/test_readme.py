"""The documents are true: the README's commands run, both languages show the same, links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from attendo.cli.main import EPILOG, main
from attendo.sample import write_sample
from tests.cli.command import Result, attendo

ROOT = Path(__file__).parent.parent
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
DOCUMENTS = [README, CHINESE, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

# Added to training commands, so that they take seconds. An adapted model keeps its sizes.
SHORT = "--steps 5 --set training.checkpoint_every=1"
SMALL = "--set model.d_model=16 --set model.d_ff=32 --set model.n_encoder_layers=1 --set model.n_decoder_layers=1"
ONE_STACK = "--set model.d_model=16 --set model.d_ff=32 --set model.n_layers=1"


def code_blocks(document: Path) -> list[tuple[str, str]]:
    """(language, text) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def shell_lines(document: Path) -> list[str]:
    return [line for language, text in code_blocks(document) if language == "sh" for line in text.splitlines()]


def inline_commands(document: Path) -> list[str]:
    """What stands in backquotes and is a whole command: a bare `attendo train` only names one."""
    found = re.findall(r"(?<!`)`(attendo \w+ [^`]+)`(?!`)", document.read_text(encoding="utf-8"))
    return [command for command in found if len(command.split()) > 2]


def lines_of(path: Path, first: int, last: int) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[first:last]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README speaks of."""
    write_sample(tmp_path / "sample", pairs=701)  # fewer take longer: they have fewer of the held-out words
    sides = {}
    for side in ("en", "de"):
        train, test = tmp_path / f"sample/train.{side}", tmp_path / f"sample/test.{side}"
        sides[side] = lines_of(train, 0, 100)
        texts = {
            "train": sides[side],
            "more": lines_of(train, 100, 160),
            "test": lines_of(test, 0, 12),
            "in": lines_of(test, 12, 16),
        }
        for name, text in texts.items():
            (tmp_path / f"{name}.{side}").write_text("\n".join(text) + "\n", encoding="utf-8")
    (tmp_path / "in.de").unlink()
    (tmp_path / "notes.md").write_text("# A dog\n\nA man *reads*.\n", encoding="utf-8")
    pairs = zip(sides["en"], sides["de"], strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in pairs), encoding="utf-8")
    return tmp_path


def in_a_shell(command: str) -> Result:
    """The command as a process of its own."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    return Result(done.returncode, done.stdout, done.stderr)


def test_the_commands_run_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `attendo` line and every Python block, in the order of the README, in one folder."""
    monkeypatch.chdir(folder)
    ran = 0
    for language, text in code_blocks(README):
        commands = text.splitlines() if language == "sh" else [shlex.join([sys.executable, "-c", text])]
        for command in commands:
            if command.split()[0] in ("pip", "make"):
                continue
            if command.startswith("attendo train"):
                sizes = "" if "--from" in command else ONE_STACK if "--task" in command else SMALL
                command += f" {SHORT} {sizes}"
            # A process of its own takes seconds to start: only those that need the shell, or are none of `attendo`.
            here = command.startswith("attendo") and ">" not in command
            done = attendo(*shlex.split(command)[1:]) if here else in_a_shell(command)
            assert done.code == 0, f"{command}\n{done.err}"
            assert done.out or ">" in command, f"{command} printed nothing"
            ran += 1
    assert ran >= 10
    assert len(lines_of(folder / "out.de", 0, 100)) == 4
    assert not (folder / "en-de/checkpoints").exists()
    assert (folder / "runs/mine/report.html").exists()


def test_both_languages_show_the_same_code() -> None:
    assert code_blocks(README) == code_blocks(CHINESE)
    assert inline_commands(README) == inline_commands(CHINESE)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = {line.split()[1] for line in shell_lines(README) if line.startswith("make ")}
    called |= set(
        re.findall(r"(?:^|`)make (\w+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert "demo" in called
    for target in called:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"the Makefile has no target {target}"


def test_pip_installs_from_here() -> None:
    (line,) = [line for line in shell_lines(README) if line.startswith("pip ")]
    assert line == "pip install -c constraints.txt ."
    assert (ROOT / "constraints.txt").exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_the_text_can_be_parsed(document: Path) -> None:
    """Names of commands and options are right; what they do is tested elsewhere."""
    for line in [*inline_commands(document), *shell_lines(document)]:
        words = shlex.split(re.split("[<>]", line)[0])
        if words[0] != "attendo":
            continue
        command = main.get_command(click.Context(main), words[1])
        assert command is not None, f"{line}: there is no such command"
        command.make_context(words[1], words[2:])  # complains about anything it does not know


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), f"{document.name} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [heading.lower().replace(" ", "-") for heading in headings], link


@pytest.mark.parametrize("document", [README, CHINESE], ids=lambda path: path.name)
def test_exit_codes_are_those_of_the_command_line(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    (paragraph,) = re.findall(r"^\*\*(?:Exit codes\.\*\*|退出码\*\*：)(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    listed = [re.search(r"\d+", part) for part in paragraph.split("·")]
    stated = re.findall(r"(?:^|[:;]\s)\s*(\d+) ", EPILOG)
    assert [code.group() for code in listed if code] == stated
