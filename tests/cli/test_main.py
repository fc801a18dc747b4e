"""The command as a whole: help, versions, exit codes; and as a real process: bytes, pipes, signals."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attendo as package
from attendo.cli import main
from attendo.errors import (
    AttendoError,
    BundleError,
    ConfigError,
    DataError,
    Interrupted,
    StorageError,
    TrainingError,
)
from tests.cli.command import attendo, unchanged

COMMANDS = list(main.COMMANDS)


def process(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "attendo", *map(str, arguments)]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    return subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=environment, timeout=120)


def test_help_lists_every_command_and_every_exit_code():
    result = attendo("--help")
    assert (result.code, result.err) == (0, "")
    for name in COMMANDS:
        assert f"  {name} " in result.out
    for kind in (AttendoError, ConfigError, DataError, BundleError, TrainingError, StorageError):
        assert f" {kind.exit_code} " in result.out
    assert "130" in result.out
    assert "143" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_the_options_of_all(command):
    result = attendo(command, "--help")
    assert (result.code, result.err) == (0, "")
    for option in ("--seed", "--device", "--quiet", "--json"):
        assert option in result.out
    assert "Usage: attendo" in result.out


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_the_options_of_searching(command):
    text = attendo(command, "--help").out
    for option in ("--beam", "--length-penalty", "--max-length", "--batch-size", "--batch-tokens"):
        assert option in text


def test_the_version():
    assert attendo("--version").out == f"attendo, version {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "No such command 'trian'"),
        (["translate"], "Missing argument 'BUNDLE'"),
        (["translate", "x", "--beem", "3"], "--beam"),
        (["translate", "x", "--beam", "0"], "0 is not in the range x>=1"),
        (["translate", "x", "--beam", "many"], "'many' is not a valid integer"),
        (["translate", "x", "--device", "tpu"], "'tpu' is not one of"),
        (["train", "a", "b", "--preset", "huge"], "'huge' is not one of"),
    ],
)
def test_wrong_arguments_end_with_2(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with unchanged(tmp_path):
        result = attendo(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("why"), 2),
        (DataError("why"), 3),
        (BundleError("why"), 4),
        (TrainingError("why"), 5),
        (StorageError("why"), 6),
        (Interrupted("why", 2), 130),
        (Interrupted("why", 15), 143),
    ],
)
def test_each_kind_of_error_is_one_line_and_its_code(monkeypatch, error, code):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("attendo.bundle.open_bundle", fail)
    result = attendo("export", "x", "--to", "attendo", "--out", "y")
    assert (result.code, result.out, result.err) == (code, "", "attendo: why\n")


def test_ctrl_c_is_130(monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attendo.bundle.open_bundle", interrupt)
    result = attendo("export", "x", "--to", "attendo", "--out", "y")
    assert (result.code, result.err.strip()) == (130, "attendo: interrupted.")


def test_a_bug_keeps_its_stack_trace(monkeypatch):
    def bug(*_: object) -> None:
        raise OSError(errno.EIO, "what is this")

    monkeypatch.setattr("attendo.bundle.open_bundle", bug)
    with pytest.raises(OSError, match="what is this"):
        attendo("export", "x", "--to", "attendo", "--out", "y")


# --- a real process ---------------------------------------------------------------------------------------------


def test_lines_in_and_lines_out_are_bytes_whatever_the_locale(trained):
    lines = ["five green.", "", "Köln\u2028two\u0085three.", "one.\r", "  ", "two."]
    run = process("translate", trained.path, "--quiet", stdin="\n".join(lines).encode())
    assert run.returncode == 0, run.stderr
    assert run.stderr == b""
    assert run.stdout.endswith(b"\n")
    assert b"\r" not in run.stdout
    out = run.stdout.decode("utf-8").split("\n")[:-1]
    assert len(out) == 6
    assert out[0] == "fünf grün."
    assert (out[1], out[4]) == ("", "  ")
    assert (out[3], out[5]) == ("eins.", "zwei.")


def test_the_exit_code_and_message_of_a_process(tmp_path):
    run = process("translate", "nowhere", "--text", "one", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (4, b"")
    assert run.stderr == b"attendo: there is no folder nowhere. Train one with: attendo train SOURCE TARGET\n"


def test_a_reader_that_goes_away_is_no_error(trained, tmp_path):
    """As with `attendo score … | head -n 1`: more than a pipe can hold, and nobody reads it."""
    (tmp_path / "many.tsv").write_text("one.\teins.\n" * 20_000)
    command = [sys.executable, "-m", "attendo", "score", trained.path, tmp_path / "many.tsv", "--quiet"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline().startswith(b"-")
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_results_on_a_full_disk():
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([sys.executable, "-m", "attendo", "--version"], stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 6
    assert run.stderr == b"attendo: the disk is full: the results could not be written. Make room and try again.\n"
