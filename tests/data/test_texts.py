"""Plain text on disk: all of it, once, and the end of each file held out."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from attendo.data.prepare import Prepared
from attendo.data.texts import prepare_texts
from attendo.errors import DataError
from attendo.reporting import Silent
from attendo.text.tokenizer import EOS

FIRST = [f"Line {i}  of the first,\twith more\n" for i in range(200)]
SECOND = ["\n", "a short one\n"] * 50


def prepared(folder: Path, unit: Any, valid: str | None = None, **changes: Any) -> Prepared:
    (folder / "one.txt").write_text("".join(FIRST), encoding="utf-8")
    with gzip.open(folder / "two.txt.gz", "wb") as file:
        file.write("".join(SECOND).encode())
    settings: dict[str, Any] = {
        "share": 0.1,
        "most": 10_000,
        "tokenizers": None,
        "kind": "bpe",
        "vocab_size": 347,
        "max_length": 9,
        "cache": folder / "cache",
        "reporter": Silent(),
    }
    files = [str(folder / "one.txt"), str(folder / "two.txt.gz")]
    return prepare_texts(files, valid, unit=unit, **{**settings, **changes})


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_files_are_texts_with_all_their_white_space(kind: str, tmp_path: Path) -> None:
    found = prepared(tmp_path, "text", kind=kind)
    ids, tokenizer = found.store.source.ids.tolist(), found.tokenizers.source
    first, second = ids[: ids.index(EOS)], ids[ids.index(EOS) + 1 :]
    assert second.pop() == EOS
    valid = [text for text, _ in found.valid]
    assert tokenizer.decode(first) + valid[0] == "".join(FIRST)
    assert tokenizer.decode(second) + valid[1] == "".join(SECOND)
    for text, whole in zip(valid, ("".join(FIRST), "".join(SECOND)), strict=True):
        assert 0.07 < len(text) / len(whole) <= 0.1


def test_lines_are_trimmed_cut_and_never_empty(tmp_path: Path) -> None:
    found = prepared(tmp_path, "line")
    rows = [found.store.source[i].tolist() for i in range(len(found.store.source))]
    assert min(map(len, rows)) > 0 and max(map(len, rows)) == 9
    tokenizer = found.tokenizers.source
    text = [id_ for row in rows for id_ in row]
    lines = [line.strip(" \t\n") for line in (*FIRST, *SECOND) if line.strip()]
    held_out = [line for line, _ in found.valid]
    assert len(held_out) == 20 + 5
    expected = [*lines[:180], *lines[200:245]]
    assert text == [id_ for line in expected for id_ in tokenizer.encode(line)]


def test_most_and_a_file_for_validation(tmp_path: Path) -> None:
    found = prepared(tmp_path, "line", most=7)
    assert len(found.valid) == 7 + 4  # of the second file's last seven lines three are empty
    (tmp_path / "valid.txt").write_text("one\ntwo\n")
    found = prepared(tmp_path, "line", str(tmp_path / "valid.txt"))
    assert found.valid == [("one", ""), ("two", "")]
    assert found.facts["validation"] == str(tmp_path / "valid.txt")


def test_the_tokenizer_sees_nothing_that_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a line of it\n" * 95 + "ÄÄÄ ÖÖÖ ÜÜÜ\n" * 5, encoding="utf-8")
    found = prepare_texts(
        [str(tmp_path / "secret.txt")],
        None,
        unit="text",
        share=0.1,
        most=10_000,
        tokenizers=None,
        kind="bpe",
        vocab_size=320,
        max_length=9,
        cache=tmp_path / "cache",
        reporter=Silent(),
    )
    assert not any("Ä" in piece for piece in found.tokenizers.source.pieces(range(found.tokenizers.source.vocab_size)))


def test_found_again_and_too_little_text(tmp_path: Path) -> None:
    assert prepared(tmp_path, "text").folder == prepared(tmp_path, "text").folder
    assert prepared(tmp_path, "text").folder == prepared(tmp_path, "text", max_length=11).folder
    assert prepared(tmp_path, "line").folder != prepared(tmp_path, "line", max_length=11).folder
    (tmp_path / "tiny.txt").write_text("one line\n")
    with pytest.raises(DataError, match=r"tiny\.txt: .* Give more text, in several lines"):
        prepare_texts(
            [str(tmp_path / "tiny.txt")],
            None,
            unit="text",
            share=0.1,
            most=10_000,
            tokenizers=None,
            kind="bpe",
            vocab_size=320,
            max_length=9,
            cache=tmp_path / "cache",
            reporter=Silent(),
        )
