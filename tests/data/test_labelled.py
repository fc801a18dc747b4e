"""Labels and texts from TSV files, on disk and in batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attendo.data.labelled import LabelledRows, prepare_labelled, read_labelled, shortened
from attendo.data.prepare import Prepared
from attendo.errors import DataError
from attendo.reporting import Silent
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, EOS, train_tokenizer

LINES = [f"{'good' if i % 3 else 'bad'}\tfilm number {i}" + ("\tsecond text" if i % 5 == 0 else "") for i in range(71)]


def prepared(folder: Path, valid: str | None = None, **changes: Any) -> Prepared:
    path = folder / "train.tsv"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    settings: dict[str, Any] = {
        "columns": None,
        "labels": None,
        "tokenizers": None,
        "kind": "bpe",
        "vocab_size": 331,
        "max_length": 40,
        "cache": folder / "cache",
        "reporter": Silent(),
    }
    return prepare_labelled(str(path), valid, **{**settings, **changes})


def test_every_text_is_there_once_with_its_label(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    names, tokenizer = found.facts["labels"], found.tokenizers.source
    rows = LabelledRows(found.store)
    batch = rows.batch(np.arange(len(found.store)), 0)
    assert names == ["bad", "good"] and batch.labels_B is not None and batch.segments_BT is not None
    told = []
    columns = (batch.ids_BT, batch.segments_BT, batch.lengths_B, batch.labels_B)
    for ids, segments, length, label in zip(*(column.tolist() for column in columns), strict=True):
        assert ids[0] == BOS and ids[length - 1] == EOS and not any(ids[length:])
        inside = ids[1 : length - 1]
        parts = [inside] if EOS not in inside else [inside[: inside.index(EOS)], inside[inside.index(EOS) + 1 :]]
        assert segments[:length] == [0] * (len(parts[0]) + 2) + [1] * (len(parts[1]) + 1 if len(parts) > 1 else 0)
        told.append("\t".join([names[label], *(tokenizer.decode(part) for part in parts)]))
    held_out = [f"{label}\t{texts}" for label, texts in found.valid]
    assert sorted(told + held_out) == sorted(LINES)
    assert len(held_out) == 7  # a tenth
    longest, _ = rows.lengths(0)
    assert (longest + 1 >= batch.lengths_B.numpy()).all()


def test_it_is_found_again_until_something_changes(tmp_path: Path) -> None:
    assert prepared(tmp_path).folder == prepared(tmp_path).folder
    for change in ({"max_length": 39}, {"columns": (1, 2)}, {"vocab_size": 332}, {"labels": ["bad", "good"]}):
        assert prepared(tmp_path, **change).folder != prepared(tmp_path).folder


def test_two_long_texts_share_the_room() -> None:
    tokenizer = train_tokenizer(["a b c d"], kind="characters", vocab_size=300)
    both = TokenizerPair(tokenizer, tokenizer)
    for first, second in (("a" * 90, ""), ("a" * 90, "b"), ("a" * 90, "b" * 90), ("a", "b" * 90), ("a" * 5, "b" * 5)):
        ((one, other, cut),) = shortened(both, [[first, second]], 23)
        assert len(one) + len(other) + 3 <= 23
        whole = len(tokenizer.encode(first)) + len(tokenizer.encode(second)) if second else len(tokenizer.encode(first))
        assert len(one) + len(other) == min(20, whole)
        assert cut == (whole > 20)
        if second:
            assert min(len(one), len(other)) >= min(10, len(tokenizer.encode(first)), len(tokenizer.encode(second)))


def test_texts_that_lose_their_end_are_counted(tmp_path: Path) -> None:
    assert "texts without their end" not in prepared(tmp_path).facts["in_words"]
    facts = prepared(tmp_path, max_length=7).facts
    assert 0 < facts["texts"]["cut"] <= facts["texts"]["kept"]
    words = f"{facts['texts']['cut']}, longer than 7 pieces (data.max_length)"
    assert facts["in_words"]["texts without their end"] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("good\ta film\nbad\n", "line 2: it has 1 column, and a label and one or two texts"),
        ("good\ta\tb\tc\n", "line 1: it has 4 columns"),
        ("good\t\n", "line 1: the text is empty"),
        ("\ta film\n", "line 1: the label is empty"),
        ("", "the file is empty"),
    ],
)
def test_lines_that_cannot_be_read(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(DataError, match=words):
        list(read_labelled(str(tmp_path / "x.tsv")))


def test_other_columns(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("7\ta film\t-\tgood\n")
    (one,) = read_labelled(str(tmp_path / "x.tsv"), (4, 2))
    assert (one.label, one.texts) == ("good", ("a film",))


def test_a_label_of_one_text_is_learned_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rare = [f"rare{i}\tword {i}" for i in range(20)]
    monkeypatch.setattr("tests.data.test_labelled.LINES", [*LINES, *rare])
    found = prepared(tmp_path)
    assert set(found.facts["labels"]) == {"bad", "good", *(f"rare{i}" for i in range(20))}
    assert not any(label.startswith("rare") for label, _ in found.valid)
    assert len(found.valid) > 3


def test_a_label_that_only_validation_has(tmp_path: Path) -> None:
    (tmp_path / "valid.tsv").write_text("other\ta film\n")
    with pytest.raises(DataError, match="'other' is none of 'bad', 'good', which the training texts have"):
        prepared(tmp_path, str(tmp_path / "valid.tsv"))


def test_labels_that_the_model_does_not_know_and_one_label_only(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the label '(bad|good)' is none of 'x', 'y', which the model knows"):
        prepared(tmp_path, labels=["x", "y"])
    (tmp_path / "one.tsv").write_text("".join(f"same\ttext {i}\n" for i in range(40)))
    with pytest.raises(DataError, match="every text has the label 'same'"):
        prepare_labelled(
            str(tmp_path / "one.tsv"),
            None,
            columns=None,
            labels=None,
            tokenizers=None,
            kind="bpe",
            vocab_size=None,
            max_length=40,
            cache=tmp_path / "cache",
            reporter=Silent(),
        )
