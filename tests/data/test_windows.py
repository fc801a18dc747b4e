"""A long text in windows: every id is asked once, and each epoch begins somewhere else."""

import numpy as np
import pytest

from attendo.data.texts import chunks
from attendo.data.windows import Windows
from attendo.errors import DataError
from attendo.text.tokenizer import train_tokenizer

IDS = np.arange(100, 1107, dtype=np.uint32)


def test_every_id_is_asked_once_from_the_one_before() -> None:
    windows = Windows(IDS, length=13, seed=5)
    count = len(windows.lengths(0)[0])
    batch = windows.batch(np.arange(count), 0)
    assert batch.targets_BT is not None
    assert batch.ids_BT.shape == (count, 13) and batch.lengths_B.tolist() == [13] * count
    assert (batch.targets_BT == batch.ids_BT + 1).all()
    asked = batch.targets_BT.flatten().tolist()
    assert asked == list(range(asked[0], asked[0] + len(asked)))
    assert len(IDS) - len(asked) <= 2 * 13


def test_epochs_begin_at_different_places_and_the_same_again() -> None:
    firsts = [int(Windows(IDS, length=13, seed=5).batch(np.array([0]), epoch).ids_BT[0, 0]) for epoch in range(40)]
    assert len(set(firsts)) > 8 and max(firsts) < 100 + 13
    assert firsts[7] == int(Windows(IDS, length=13, seed=5).batch(np.array([0]), 7).ids_BT[0, 0])


def test_a_text_of_one_window() -> None:
    windows = Windows(IDS[:14], length=13, seed=5)
    assert [len(windows.lengths(epoch)[0]) for epoch in range(5)] == [1] * 5
    with pytest.raises(DataError, match=r"13 pieces, and a window of data\.max_length = 13 needs one more"):
        Windows(IDS[:13], length=13, seed=5)


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_parts_of_a_text_have_the_ids_of_the_whole(kind) -> None:
    lines = [f"The  {word} runs, {number}.\n" for number, word in enumerate(["dog", "hound", "fox\n\n"] * 20)]
    tokenizer = train_tokenizer(lines, kind=kind, vocab_size=331)
    parts = list(chunks(iter(lines), size=50))
    assert len(parts) > 10 and "".join(parts) == "".join(lines)
    ids = [id_ for part in tokenizer.encode_batch(parts) for id_ in part]
    assert ids == tokenizer.encode("".join(lines))
