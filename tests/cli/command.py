"""Running the command line inside the test's own process, which saves the seconds that starting torch takes."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attendo.cli.main import run

TINY = [
    *("--set", "model.n_encoder_layers=1", "--set", "model.n_decoder_layers=1", "--set", "model.d_model=8"),
    *("--set", "model.d_ff=11", "--set", "model.n_heads=2", "--set", "tokenizer.vocab_size=301"),
]
"""Settings with which a few steps take no time."""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Keyboard(io.TextIOWrapper):
    """A standard input that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def attendo(*arguments: object, stdin: str | bytes = b"", typed: bool = False) -> Result:
    """What `attendo ARGUMENTS < stdin` writes and ends with; `typed`: the input comes from a keyboard."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["attendo", *map(str, arguments)])
        kind = Keyboard if typed else io.TextIOWrapper
        patch.setattr(sys, "stdin", kind(io.BufferedReader(io.BytesIO(given))))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code: object = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        out.flush()
        err.flush()
    assert isinstance(code, int)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Result(code, texts[0], texts[1])


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing in a folder comes, goes or changes, hidden things included."""
    before = _contents(folder)
    yield
    assert _contents(folder) == before


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
