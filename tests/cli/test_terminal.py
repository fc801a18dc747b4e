"""What a terminal shows, and what a log file gets instead."""

import io
import itertools

import pytest

from attendo.cli import terminal
from attendo.cli.options import reporting
from attendo.cli.terminal import Terminal

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Screen(io.StringIO):
    """A standard error that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def on_screen(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> io.StringIO:
    """Where a new `Terminal` writes to."""
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return screen


def test_a_line_that_stays_is_not_broken_or_interpreted(monkeypatch):
    screen = on_screen(monkeypatch, is_terminal=True)
    text = "[bold]a long line[/bold] 42 " * 10
    Terminal().say(text)
    assert screen.getvalue() == text + "\n"


def test_no_progress_line_is_left_when_work_fails(monkeypatch):
    screen = on_screen(monkeypatch, is_terminal=True)

    def work() -> None:
        with reporting(quiet=False) as reporter:
            reporter.progress(3, 10, "loss 5.1")
            raise KeyError

    with pytest.raises(KeyError):
        work()
    text = screen.getvalue()
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) == 1
    assert text.endswith("\x1b[2K")  # the line is erased


def test_the_progress_line_ends_with_the_last_step(monkeypatch):
    screen = on_screen(monkeypatch, is_terminal=True)
    shown = Terminal()
    for step in (1, 2):
        shown.progress(step, 2, f"loss {step}.5")
    assert shown.bar is None
    assert "loss 2.5" in screen.getvalue()
    assert "2/2" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_another_bar_takes_the_place_of_the_progress_line(monkeypatch):
    screen = on_screen(monkeypatch, is_terminal=True)
    shown = Terminal()
    shown.progress(3, 10, "stopped early")
    assert list(shown.track([7, 8], "Translating", 2)) == [7, 8]
    assert shown.bar is None
    text = screen.getvalue()
    assert text.index(SHOW_CURSOR) < text.index("Translating")


def test_a_log_file_gets_a_line_now_and_then(monkeypatch):
    screen = on_screen(monkeypatch, is_terminal=False)
    clock = itertools.count(100.0, terminal.PLAIN_SECONDS / 2)
    now = [next(clock)]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    shown = Terminal()
    assert list(shown.track("abc", "Reading")) == ["a", "b", "c"]
    for step in range(1, 7):
        now[0] = next(clock)
        shown.progress(step, 6, f"loss {step}")
    assert screen.getvalue().splitlines() == [
        "step 1/6  loss 1",
        "step 3/6  loss 3",
        "step 5/6  loss 5",
        "step 6/6  loss 6",
    ]


def test_quiet_says_nothing(capsys):
    with reporting(quiet=True) as reporter:
        reporter.say("text")
        reporter.progress(1, 2, "text")
        assert list(reporter.track([1], "text")) == [1]
    assert capsys.readouterr() == ("", "")
