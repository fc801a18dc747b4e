"""Masks fall as BERT's paper says, are drawn anew in each epoch, and depend on nothing but seed, epoch and place."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from attendo.data.masking import MaskedRows, WordBorders, side_of
from attendo.data.noise_settings import MaskNoise
from attendo.data.store import Side
from attendo.data.text_batch import NOTHING, TextBatch
from attendo.errors import DataError
from attendo.text.tokenizer import BOS, CONTROLS, EOS, PAD, UNK, Kind, Tokenizer, train_tokenizer

LENGTH = 67


WORDS = [f"{a}{b}{c}" for a in ("ba", "ki", "lo") for b in ("na", "du", "te") for c in ("", "ri", "sam")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([" ".join(WORDS)] * 5, kind="bpe", vocab_size=311)


@pytest.fixture(scope="module")
def side(tokenizer: Tokenizer) -> Side:
    """More than 100,000 ordinary pieces, in lines of up to 23."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 24, 9500)
    return side_of([rng.integers(len(CONTROLS), tokenizer.vocab_size, size).tolist() for size in sizes])


def rows(side: Side, tokenizer: Tokenizer, *, seed: int = 3, **noise: Any) -> MaskedRows:
    return MaskedRows(side, tokenizer, MaskNoise(**noise), max_length=LENGTH, seed=seed)


def everything(rows: MaskedRows, epoch: int = 0) -> TextBatch:
    return rows.batch(np.arange(len(rows.lengths(epoch)[0])), epoch)


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_shares_are_the_papers(side: Side, tokenizer: Tokenizer, whole_words: bool) -> None:
    batch = everything(rows(side, tokenizer, whole_words=whole_words))
    assert batch.targets_BT is not None
    asked, mask = batch.targets_BT != NOTHING, tokenizer.vocab_size
    text = batch.n_tokens - 2 * len(batch)
    assert text == len(side.ids) > 100_000
    assert asked.sum().item() / text == pytest.approx(0.15, abs=0.005)
    shown, true = batch.ids_BT[asked], batch.targets_BT[asked]
    masked, same = (shown == mask).float().mean().item(), (shown == true).float().mean().item()
    assert masked == pytest.approx(0.8, abs=0.01)
    assert same == pytest.approx(0.1, abs=0.01)  # and by chance a replacement is the same
    assert 1 - masked - same == pytest.approx(0.1, abs=0.01)
    replaced = shown[(shown != mask) & (shown != true)]
    assert replaced.min() >= len(CONTROLS) and replaced.max() < mask  # ordinary pieces only
    assert len(replaced.unique()) > 250


def test_control_ids_and_padding_are_never_chosen_nor_changed(side: Side, tokenizer: Tokenizer) -> None:
    batch = everything(rows(side, tokenizer, rate=0.9))
    assert batch.targets_BT is not None
    real = torch.arange(batch.ids_BT.shape[1]) < batch.lengths_B[:, None]
    last = torch.arange(len(batch)), batch.lengths_B - 1
    assert (batch.ids_BT[:, 0] == BOS).all() and (batch.ids_BT[last] == EOS).all()
    assert (batch.targets_BT[:, 0] == NOTHING).all() and (batch.targets_BT[last] == NOTHING).all()
    assert (batch.targets_BT[~real] == NOTHING).all() and (batch.ids_BT[~real] == PAD).all()


def test_what_the_tokenizer_did_not_know_is_never_chosen(tokenizer: Tokenizer) -> None:
    batch = everything(rows(side_of([[7, UNK, 9, UNK, 11]] * 300), tokenizer, rate=0.9, whole_words=True))
    assert batch.targets_BT is not None
    assert not (batch.targets_BT == UNK).any() and (batch.targets_BT == 9).any()
    assert (batch.ids_BT == UNK).sum() == 600


def test_what_is_not_chosen_is_the_text_itself(side: Side, tokenizer: Tokenizer) -> None:
    batch = everything(rows(side, tokenizer))
    assert batch.targets_BT is not None
    told = torch.where(batch.targets_BT == NOTHING, batch.ids_BT, batch.targets_BT)
    text = [row[1 : length - 1] for row, length in zip(told, batch.lengths_B.tolist(), strict=True)]
    assert torch.cat(text).tolist() == side.ids.tolist()
    assert batch.lengths_B.max() <= LENGTH


def test_each_epoch_hides_something_else_and_the_same_again(side: Side, tokenizer: Tokenizer) -> None:
    one, other = rows(side, tokenizer), rows(side, tokenizer)
    some = np.arange(300)
    first, again = one.batch(some, 4), other.batch(some, 4)
    assert torch.equal(first.ids_BT, again.ids_BT)
    later = one.batch(some, 5)
    assert first.targets_BT is not None and later.targets_BT is not None
    assert not torch.equal(first.targets_BT == NOTHING, later.targets_BT == NOTHING)  # other places
    mask = tokenizer.vocab_size
    both = (first.targets_BT != NOTHING) & (later.targets_BT != NOTHING)
    assert not torch.equal(first.ids_BT[both] == mask, later.ids_BT[both] == mask)  # and another fate
    assert not torch.equal(first.ids_BT, rows(side, tokenizer, seed=4).batch(some, 4).ids_BT)
    alone = one.batch(some[:1], 4)
    assert torch.equal(alone.ids_BT[0], first.ids_BT[0, : alone.ids_BT.shape[1]])


def test_whole_words_are_hidden_together(side: Side, tokenizer: Tokenizer) -> None:
    batch = everything(rows(side, tokenizer, whole_words=True))
    assert batch.targets_BT is not None
    spellings = tokenizer.spellings()
    for row, asked, length in zip(batch.targets_BT[:50], batch.ids_BT, batch.lengths_B.tolist(), strict=False):
        told = torch.where(row == NOTHING, asked, row).tolist()
        for place in range(2, length - 1):
            goes_on, before = (spellings[told[at]] for at in (place, place - 1))
            if goes_on.isalpha() and before.lstrip(" ").isalpha():
                assert (row[place] == NOTHING) == (row[place - 1] == NOTHING)


def test_whole_words_of_wordpieces_are_hidden_together() -> None:
    tokenizer = train_tokenizer([" ".join(WORDS)] * 5, kind="wordpiece", vocab_size=300)
    line = tokenizer.encode(" ".join(one + other for one, other in zip(WORDS, WORDS[5:], strict=False)))
    pieces = tokenizer.pieces(line)
    assert any(piece.startswith("##") for piece in pieces) and not all(piece.startswith("##") for piece in pieces[1:])
    batch = everything(rows(side_of([line] * 200), tokenizer, whole_words=True))
    assert batch.targets_BT is not None
    hidden = (batch.targets_BT != NOTHING)[:, 1 : len(line) + 1]
    assert hidden.any(0).all()
    for place, piece in enumerate(pieces[1:], 1):
        together = torch.equal(hidden[:, place], hidden[:, place - 1])
        assert together == piece.startswith("##")


WORDS_OF_TEXTS = [
    ("ba kina, (lodu)! na'te 123ri", ["ba", "kina", ",", "(", "lodu", ")!", "na", "'", "te", "123", "ri"]),
    ("男人跑步。", ["男", "人", "跑", "步", "。"]),
    ("ba 女孩ri", ["ba", "女", "孩", "ri"]),
    ("यह किताब है।", ["यह", "किताब", "है", "।"]),
]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "characters"])
@pytest.mark.parametrize(("text", "words"), WORDS_OF_TEXTS)
def test_words_end_at_spaces_and_between_letters_and_the_rest(kind: Kind, text: str, words: list[str]) -> None:
    tokenizer = train_tokenizer([" ".join(WORDS), *(text for text, _ in WORDS_OF_TEXTS)], kind=kind, vocab_size=450)
    ids = np.array(tokenizer.encode(text), dtype=np.int64)
    starts = np.flatnonzero(WordBorders(tokenizer).begin(ids)).tolist()
    found = [tokenizer.decode(ids[start:stop].tolist()) for start, stop in pairwise([*starts, len(ids)])]
    assert [word.strip() for word in found] == words


def test_two_segments_of_which_half_follow_each_other(side: Side, tokenizer: Tokenizer) -> None:
    made = rows(side, tokenizer, next_sentence=True)
    batch = everything(made)
    assert batch.labels_B is not None and batch.segments_BT is not None and batch.targets_BT is not None
    assert batch.labels_B.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert (batch.targets_BT[batch.ids_BT < len(CONTROLS)] == NOTHING).all()  # also of what is between the two
    assert batch.label_weight * len(batch) == pytest.approx(batch.n_targets)
    assert batch.lengths_B.max() <= LENGTH
    told = torch.where(batch.targets_BT == NOTHING, batch.ids_BT, batch.targets_BT)
    text = side.ids.tolist()
    places: dict[tuple[int, ...], int] = {}
    for place in range(len(text) - 3):
        places.setdefault(tuple(text[place : place + 4]), place)
    checked = 0
    for row, segments, length, follows in zip(
        told.tolist(), batch.segments_BT.tolist(), batch.lengths_B.tolist(), batch.labels_B.tolist(), strict=True
    ):
        cut = segments.index(1)
        first, second = row[1 : cut - 1], row[cut : length - 1]
        assert row[0] == BOS and row[cut - 1] == EOS and row[length - 1] == EOS and first and second
        begin, there = places.get(tuple(first[-4:])), places.get(tuple(second[:4]))
        if len(first) >= 4 and len(second) >= 4 and begin is not None and there is not None:
            checked += 1
            assert (there == begin + 4) == bool(follows)
    assert checked > 500


def test_two_segments_that_there_cannot_be(tokenizer: Tokenizer) -> None:
    long = list(range(5, 5 + LENGTH // 2))
    for lines, words in (([long] * 9, "no two neighbouring lines"), ([[5, 6], [7, 8]], "all of the text fits")):
        made = rows(side_of(lines), tokenizer, next_sentence=True)
        with pytest.raises(DataError, match=words):
            made.check()
        rows(side_of(lines), tokenizer).check()
    rows(side_of([[5, 6]] * 99), tokenizer, next_sentence=True).check()


def test_sizes_for_planning_batches_are_those_of_the_rows(side: Side, tokenizer: Tokenizer) -> None:
    for next_sentence in (False, True):
        made = rows(side, tokenizer, next_sentence=next_sentence)
        assert (made.lengths(2)[0] + 1).tolist() == everything(made, 2).lengths_B.tolist()  # + EOS, as for any text
