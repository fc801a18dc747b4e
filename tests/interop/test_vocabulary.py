"""Their ids and ours: the layout, and that every row comes back."""

import pytest
import torch

from attendo.errors import ForeignError
from attendo.interop.vocabulary import LARGEST_VOCABULARY, Order, order_of

# (pad, start, eos, unk) of theirs, and our first rows, of a vocabulary of 11 rows
CASES = {
    "marian": ((10, 10, 0, 1), (None, 10, 0, 1, 2, 3)),
    "t5": ((0, 0, 1, 2), (None, 0, 1, 2, 3, 4)),
    "bart": ((1, 2, 2, 3), (1, 2, 2, 3, 0, 4)),
    "bert": ((0, 7, 8, 6), (0, 7, 8, 6, 1, 2)),
    "gpt2": ((None, 10, 10, 10), (None, 10, 10, None, 0, 1)),
    "llama": ((2, 1, 2, 0), (None, 1, 2, 0, 3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_layout(name):
    (pad, start, eos, unk), first = CASES[name]
    order = order_of(11, pad=pad, start=start, eos=eos, unk=unk)
    assert order.rows[:6] == first
    assert sorted({row for row in order.rows if row is not None}) == list(range(11))
    assert order.back[eos] == 2
    assert order.vocab_size == len(order.rows)
    assert Order.from_json(order.to_json()) == order


@pytest.mark.parametrize("name", CASES)
def test_every_row_goes_over_and_comes_back(name):
    pad, start, eos, unk = CASES[name][0]
    order = order_of(11, pad=pad, start=start, eos=eos, unk=unk)
    theirs = torch.randn(11, 3)
    ours = order.ours(theirs)
    assert torch.equal(order.theirs(ours), theirs)
    for place, row in enumerate(order.rows):
        assert torch.equal(ours[place], torch.zeros(3) if row is None else theirs[row])


def test_rows_that_they_do_not_have_are_silent():
    assert order_of(11, pad=10, start=10, eos=0, unk=1).silent == (0,)
    assert order_of(11, pad=1, start=2, eos=2, unk=3).silent == (1,)  # a copy of </s>
    assert order_of(11, pad=None, start=10, eos=10, unk=10).silent == (0, 1, 3)
    assert order_of(11, pad=0, start=7, eos=8, unk=6).silent == ()


def test_what_stands_for_something_hidden_is_last():
    order = order_of(11, pad=0, start=7, eos=8, unk=6, last=(9, 3))
    assert order.rows == (0, 7, 8, 6, 1, 2, 4, 5, 10, 9, 3)
    assert order.vocab_size == 9
    assert torch.equal(order.theirs(order.ours(torch.arange(11.0))), torch.arange(11.0))
    assert Order.from_json(order.to_json()) == order


def test_a_vocabulary_of_an_absurd_size():
    with pytest.raises(ForeignError, match="rows is more"):
        order_of(LARGEST_VOCABULARY + 1, pad=0, start=1, eos=2, unk=3)
