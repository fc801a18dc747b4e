import math

import pytest
import torch

from attendo.decoding.search import SearchOptions, check_arguments, make_hypothesis, permitted_log_probs
from attendo.errors import AttendoError, ConfigError
from tests.decoding.toy import EOS


def test_penalties_are_the_formulas() -> None:
    assert SearchOptions(alpha=0.6).penalty(7) == pytest.approx(2.0**0.6)
    assert SearchOptions(alpha=0.0).penalty(7) == 1.0
    assert SearchOptions(length_penalty="average").penalty(7) == 7.0
    assert SearchOptions(length_penalty="none").penalty(7) == 1.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"beam": 3, "n_best": 5}, "n_best is 5"),
        ({"n_best": 0}, "n_best is 0"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"alpha": math.inf}, "alpha is inf"),
        ({"length_penalty": "gnm"}, "length_penalty is 'gnm'.*gnmt, average, none"),
        ({"stopping": "last"}, "stopping is 'last'.*exact, first"),
    ],
)
def test_impossible_options_are_named(settings, named) -> None:
    with pytest.raises(ConfigError, match=named):
        SearchOptions(**settings)


def test_hypothesis_counts_eos_and_knows_whether_it_was_cut() -> None:
    options = SearchOptions(length_penalty="average")
    log_probs = [-0.5, -1.0, -3.0]
    hypothesis = make_hypothesis([3, 4], log_probs, limit=3, options=options)
    assert hypothesis.log_prob == -4.5
    assert hypothesis.score == -1.5
    assert hypothesis.finished
    assert not make_hypothesis([3, 4], log_probs, limit=2, options=options).finished


def test_what_is_forbidden_keeps_its_share_of_the_probability() -> None:
    logits = torch.randn(3, 7, generator=torch.Generator().manual_seed(5))
    before = logits.clone()
    at_limit = torch.tensor([False, True, False])
    log_probs = permitted_log_probs(logits, at_limit_N=at_limit, eos=EOS, forbidden=(0, 1))
    expected = before.log_softmax(dim=1)
    assert torch.equal(logits, before), "the step's own logits must stay as they are"
    assert torch.equal(log_probs[[0, 2], 2:], expected[[0, 2], 2:])
    assert log_probs[1, EOS] == expected[1, EOS]
    assert torch.isneginf(log_probs[[0, 2], :2]).all()
    assert torch.isneginf(log_probs[1, [0, 1, 3, 4, 5, 6]]).all()


def test_half_precision_logits_are_normalised_in_float32() -> None:
    logits = torch.randn(3, 7, generator=torch.Generator().manual_seed(5)).bfloat16()
    log_probs = permitted_log_probs(logits, at_limit_N=torch.zeros(3, dtype=torch.bool), eos=EOS, forbidden=())
    assert torch.equal(log_probs, logits.float().log_softmax(dim=1))


@pytest.mark.parametrize(("place", "value"), [(4, math.nan), (4, math.inf), (EOS, -math.inf)])
def test_logits_that_cannot_be_searched_are_an_error(place, value) -> None:
    logits = torch.zeros(3, 7)
    logits[1, place] = value
    with pytest.raises(AttendoError, match="logits"):
        permitted_log_probs(logits, at_limit_N=torch.zeros(3, dtype=torch.bool), eos=EOS, forbidden=())


def test_mistaken_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match="EOS"):
        check_arguments(EOS, [3], (0, EOS))
    with pytest.raises(ValueError, match="-2"):
        check_arguments(EOS, [3, -2], ())
    with pytest.raises(ValueError, match="2 rows for 3"):
        permitted_log_probs(torch.zeros(2, 7), at_limit_N=torch.zeros(3, dtype=torch.bool), eos=EOS, forbidden=())
