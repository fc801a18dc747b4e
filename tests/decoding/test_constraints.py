import math
import random

import pytest
import torch
from transformers import NoRepeatNGramLogitsProcessor

from attendo.decoding.constraints import Constraints, completes_ngram
from attendo.errors import AttendoError
from tests.decoding.toy import EOS


def log_probs(logits, *, length=0, sentences=None, prefixes_so_far=(), **rules):
    sentence_N = torch.arange(len(logits)) if sentences is None else torch.tensor(sentences)
    rules.setdefault("limits", [100] * (int(sentence_N.max()) + 1))
    return Constraints(eos=EOS, **rules).log_probs(
        logits,
        sentence_N=sentence_N,
        length=length,
        prefix_N=torch.arange(len(logits)),
        prefix_of=prefixes_so_far.__getitem__,
    )


def random_logits(rows: int, vocab_size: int = 7) -> torch.Tensor:
    return torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(5))


def test_what_is_forbidden_keeps_its_share_of_the_probability() -> None:
    logits = random_logits(3)
    before = logits.clone()
    found = log_probs(logits, length=4, limits=[5, 4, 5], forbidden=(0, 1))
    expected = before.log_softmax(dim=1)
    assert torch.equal(logits, before), "the step's own logits must stay as they are"
    assert torch.equal(found[[0, 2], 2:], expected[[0, 2], 2:])
    assert found[1, EOS] == expected[1, EOS]
    assert torch.isneginf(found[[0, 2], :2]).all()
    assert torch.isneginf(found[1, [0, 1, 3, 4, 5, 6]]).all()


def test_half_precision_logits_are_normalised_in_float32() -> None:
    logits = random_logits(3).bfloat16()
    assert torch.equal(log_probs(logits), logits.float().log_softmax(dim=1))


@pytest.mark.parametrize(("place", "value"), [(4, math.nan), (4, math.inf), (EOS, -math.inf), (5, -math.inf)])
def test_logits_that_cannot_be_searched_are_an_error(place, value) -> None:
    logits = torch.zeros(3, 7)
    logits[1, place] = value
    with pytest.raises(AttendoError, match="logits"):
        log_probs(logits, prefixes=[[], [5], []])


def test_a_prefix_is_forced_at_the_models_own_log_probability() -> None:
    logits = random_logits(5)
    prefixes = [[3, 4, 5], [], [6, 0], [4]]
    found = log_probs(logits, length=1, sentences=[0, 1, 2, 2, 3], prefixes=prefixes, forbidden=(0,))
    expected = logits.log_softmax(dim=1)
    for row, id_ in ((0, 4), (2, 0), (3, 0)):  # what is forced may be forbidden otherwise
        assert found[row, id_] == expected[row, id_]
        assert torch.isneginf(found[row]).sum() == 6
    for row in (1, 4):
        assert torch.equal(found[row, 1:], expected[row, 1:])
        assert torch.isneginf(found[row, 0])


def test_a_prefix_may_repeat_itself_and_fill_the_limit() -> None:
    logits = random_logits(1)
    rules = {"prefixes": [[3, 3, 3]], "no_repeat_ngram": 1, "limits": [3]}
    third = log_probs(logits, length=2, prefixes_so_far=[[3, 3]], **rules)
    assert (third > -math.inf).nonzero().tolist() == [[0, 3]]
    end = log_probs(logits, length=3, prefixes_so_far=[[3, 3, 3]], **rules)
    assert (end > -math.inf).nonzero().tolist() == [[0, EOS]]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_repeated_ngrams_are_what_hugging_face_bans(n) -> None:
    generator = random.Random(n)
    for length in range(23):
        prefixes = [[generator.randrange(3, 6 + n % 2) for _ in range(length)] for _ in range(13)]
        logits = random_logits(13)
        found = log_probs(logits, length=length, prefixes_so_far=prefixes, no_repeat_ngram=n)
        ids = torch.tensor(prefixes, dtype=torch.int64).view(13, length)
        expected = NoRepeatNGramLogitsProcessor(n)(ids, logits.log_softmax(dim=1))
        assert torch.equal(found, expected)
        assert not torch.isneginf(found[:, EOS]).any()


def test_what_completes_an_ngram() -> None:
    assert completes_ngram([3, 4, 5, 3, 4], 3) == [5]
    assert completes_ngram([3, 4, 6, 3, 4, 5, 3, 4], 3) == [5, 6]
    assert completes_ngram([3, 3, 3], 3) == [3]
    assert completes_ngram([3, 4], 3) == []
    assert completes_ngram([3, 4, 3], 1) == [3, 4]


def test_the_limit_leaves_only_eos_whatever_repeats() -> None:
    found = log_probs(random_logits(1), length=2, limits=[2], prefixes_so_far=[[3, 4]], no_repeat_ngram=1)
    assert (found > -math.inf).nonzero().tolist() == [[0, EOS]]


def test_mistaken_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match="EOS"):
        Constraints(eos=EOS, limits=[3], forbidden=(0, EOS))
    with pytest.raises(ValueError, match="-2"):
        Constraints(eos=EOS, limits=[3, -2])
    with pytest.raises(ValueError, match=r"prefix \[3, 4\] must fit its limit, 1"):
        Constraints(eos=EOS, limits=[3, 1], prefixes=[[3], [3, 4]])
    with pytest.raises(ValueError, match="without EOS"):
        Constraints(eos=EOS, limits=[3], prefixes=[[EOS]])
    with pytest.raises(ValueError, match="longer"):
        Constraints(eos=EOS, limits=[3, 3], prefixes=[[3]])
    with pytest.raises(ValueError, match="2 rows for 3"):
        log_probs(torch.zeros(2, 7), sentences=[0, 1, 2])
