"""A batch: the shift of the target, padding, lengths."""

import numpy as np
import torch

from attendo.data.batch import lengths, make_batch, pad
from attendo.text.tokenizer import BOS, EOS, PAD

SOURCES = [[11, 12, 13, 14, 15], [21], [31, 32]]
TARGETS = [[41, 42], [51, 52, 53, 54, 55, 56, 57], []]


def test_source_ends_with_eos_and_is_padded_to_the_longest():
    batch = make_batch(SOURCES, TARGETS)
    assert batch.source_BS.tolist() == [
        [11, 12, 13, 14, 15, EOS],
        [21, EOS, PAD, PAD, PAD, PAD],
        [31, 32, EOS, PAD, PAD, PAD],
    ]
    assert batch.source_lengths_B.tolist() == [6, 2, 3]


def test_target_in_begins_with_bos_and_target_out_is_one_step_ahead():
    batch = make_batch(SOURCES, TARGETS)
    assert batch.target_in_BT.tolist() == [
        [BOS, 41, 42, PAD, PAD, PAD, PAD, PAD],
        [BOS, 51, 52, 53, 54, 55, 56, 57],
        [BOS, PAD, PAD, PAD, PAD, PAD, PAD, PAD],
    ]
    assert batch.target_out_BT.tolist() == [
        [41, 42, EOS, PAD, PAD, PAD, PAD, PAD],
        [51, 52, 53, 54, 55, 56, 57, EOS],
        [EOS, PAD, PAD, PAD, PAD, PAD, PAD, PAD],
    ]
    assert batch.target_lengths_B.tolist() == [3, 8, 1]


def test_a_batch_turned_round_is_that_of_the_pairs_turned_round():
    turned, expected = make_batch(SOURCES, TARGETS).turned(), make_batch(TARGETS, SOURCES)
    for name, value in vars(expected).items():
        assert vars(turned)[name].equal(value), name


def test_turning_round_leaves_the_batch_itself_as_it_was():
    batch = make_batch(SOURCES, TARGETS)
    batch.turned()
    for name, value in vars(make_batch(SOURCES, TARGETS)).items():
        assert vars(batch)[name].equal(value), name


def test_counts_real_tokens_and_all_positions():
    batch = make_batch(SOURCES, TARGETS)
    assert batch.n_tokens == (6 + 2 + 3) + (3 + 8 + 1)
    assert batch.n_positions == 3 * 6 + 3 * 8


def test_everything_is_int64_also_from_memory_mapped_ids():
    batch = make_batch([np.array(row, dtype=np.uint32) for row in SOURCES], [np.array([7], dtype=np.uint32)] * 3)
    assert all(value.dtype == torch.int64 for value in vars(batch).values())
    assert batch.source_BS.equal(make_batch(SOURCES, TARGETS).source_BS)


def test_on_the_cpu_a_batch_is_not_copied():
    batch = make_batch(SOURCES, TARGETS)
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert {value.device.type for value in vars(moved).values()} == {"meta"}
    assert moved.target_in_BT.shape == batch.target_in_BT.shape


def test_pad_with_both_ends_with_none_and_without_rows():
    assert pad([[5], [6, 7]], before=BOS, after=EOS).tolist() == [[BOS, 5, EOS, PAD], [BOS, 6, 7, EOS]]
    assert pad([[5], [6, 7]]).tolist() == [[5, PAD], [6, 7]]
    assert pad([]).shape == (0, 0)
    assert lengths([]).shape == (0,)
