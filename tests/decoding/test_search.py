import math

import pytest

from attendo.decoding.search import SearchOptions, make_hypothesis
from attendo.errors import ConfigError


def test_penalties_are_the_formulas() -> None:
    assert SearchOptions(length_penalty="gnmt", alpha=0.6).penalty(7) == pytest.approx(2.0**0.6)
    assert SearchOptions(length_penalty="gnmt", alpha=0.0).penalty(7) == 1.0
    assert SearchOptions(length_penalty="power", alpha=0.5).penalty(9) == pytest.approx(3.0)
    assert SearchOptions(length_penalty="average").penalty(7) == 7.0
    assert SearchOptions(length_penalty="none").penalty(7) == 1.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beam": 0}, "beam = 0: must be at least 1"),
        ({"beam": 2.5}, "beam = 2.5: must be a whole number"),
        ({"beam": 3, "n_best": 5}, "n_best = 5: must be at most beam, which is 3.*widen the beam"),
        ({"n_best": 0}, "n_best = 0"),
        ({"alpha": -0.1}, "alpha = -0.1"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"alpha": math.inf}, "alpha = inf"),
        ({"length_penalty": "gnm"}, "length_penalty = 'gnm'.*average, gnmt, power, none"),
        ({"alpha": 0.7}, "alpha = 0.7: is the strength of another length_penalty.*gnmt or power"),
        ({"stopping": "last"}, "stopping = 'last'.*exact, first"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram = -1"),
        ({"diversity_groups": 0}, "diversity_groups = 0"),
        ({"beam": 5, "diversity_groups": 2}, "diversity_groups = 2: must divide beam, which is 5"),
        ({"beam": 6, "diversity_groups": 3, "diversity": -1.0}, "diversity = -1.0"),
        ({"beam": 6, "diversity_groups": 3, "diversity": 0}, "diversity = 0.0: .*only narrow the beam"),
        ({"beam": 6, "diversity_groups": 3, "diversity": 1e39}, r"diversity = 1e\+39: .*at most 1000"),
        ({"beam": 6, "diversity_groups": 3, "diversity": math.nan}, "diversity = nan"),
        ({"diversity": 0.7}, "diversity = 0.7: works only between groups.*diversity_groups"),
        ({"sample": True, "temperature": 0}, "temperature = 0.0: must be a number greater than 0"),
        ({"sample": True, "temperature": math.nan}, "temperature = nan"),
        ({"sample": True, "top_k": 0}, "top_k = 0: must be at least 1"),
        ({"sample": True, "top_p": 0.0}, "top_p = 0.0: must be greater than 0 and at most 1"),
        ({"sample": True, "top_p": 1.1}, "top_p = 1.1"),
        (
            {"sample": True, "beam": 6, "diversity_groups": 3},
            "diversity_groups = 3: cannot be used with sampling, which has no beam",
        ),
        ({"temperature": 0.7}, "temperature = 0.7: works only with sampling.*--sample"),
        ({"top_k": 3}, "top_k = 3: works only with sampling"),
        ({"top_p": 0.9}, "top_p = 0.9: works only with sampling"),
    ],
)
def test_impossible_options_are_named(settings, named) -> None:
    with pytest.raises(ConfigError, match=named):
        SearchOptions(**settings)


def test_what_goes_together_is_accepted() -> None:
    assert SearchOptions(sample=True, n_best=7, beam=2, top_k=3, top_p=1.0, temperature=2).temperature == 2.0
    assert SearchOptions(beam=6, n_best=6, diversity_groups=3, diversity=1, no_repeat_ngram=3).diversity == 1.0


def test_the_options_in_use_are_the_beam_or_the_seed_and_those_that_were_changed() -> None:
    assert SearchOptions().in_use() == {"beam": 5}
    assert SearchOptions(beam=3, stopping="exact", seed=7).in_use() == {"beam": 3, "stopping": "exact"}
    sampled = SearchOptions(beam=3, stopping="exact", sample=True, top_k=2)
    assert sampled.in_use() == {"sample": True, "top_k": 2, "seed": 1}


def test_hypothesis_counts_eos_and_knows_whether_it_was_cut() -> None:
    options = SearchOptions(length_penalty="average")
    log_probs = [-0.5, -1.0, -3.0]
    hypothesis = make_hypothesis([3, 4], log_probs, limit=3, options=options)
    assert hypothesis.log_prob == -4.5
    assert hypothesis.score == -1.5
    assert hypothesis.finished
    assert not make_hypothesis([3, 4], log_probs, limit=2, options=options).finished
