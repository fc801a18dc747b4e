"""Languages, learned from nothing but the two sides."""

import numpy as np
import pytest

from attendo.doctor.languages import Identifier, Strangers, in_other_language, likelihoods
from attendo.doctor.lines import Lines
from tests.doctor.corpora import sample_pairs

FRENCH = [
    f"{who} {what} {where}."
    for who in ("Le vieux monsieur", "La petite fille", "Mon meilleur ami", "Une jeune femme")
    for what in ("regarde souvent les oiseaux", "cherche encore ses lunettes", "achète quelques pommes rouges")
    for where in ("près du grand château", "devant la gare ce matin", "avec ses deux cousines")
]


@pytest.fixture(scope="module")
def sides():
    return [list(side) for side in zip(*sample_pairs()[:1000], strict=True)]


def learned(sides: list[list[str]]) -> Identifier:
    identifier = Identifier()
    identifier.learn(Lines(sides[0]), Lines(sides[1]), np.ones(len(sides[0]), dtype=np.bool_))
    return identifier


def test_a_line_of_the_other_side_is_told(sides):
    tables = learned(sides).log_probs()
    english, german = Lines(sides[0]), Lines(sides[1])
    for lines, own in ((english, 0), (german, 1)):
        found, numbers = likelihoods(lines, tables)
        assert not in_other_language(found[own], found[1 - own], numbers).any()
        long = numbers >= 60
        assert in_other_language(found[1 - own], found[own], numbers)[long].all()


def test_likelihoods_are_means_over_the_runs_of_each_line(sides):
    tables = learned(sides).log_probs()
    together, numbers = likelihoods(Lines(sides[0][:7]), tables)
    for number, text in enumerate(sides[0][:7]):
        alone, count = likelihoods(Lines([text]), tables)
        assert count[0] == numbers[number] == sum(len(text) - order + 1 for order in (2, 3, 4))
        np.testing.assert_allclose(alone[:, 0], together[:, number], rtol=1e-5)


def test_a_third_language_is_told_by_what_its_lines_have_in_common(sides):
    mixed = sides[1] + FRENCH
    lines = Lines(mixed)
    identifier = learned([sides[0] + [""] * len(FRENCH), mixed])
    foreign = is_foreign(lines, identifier)
    assert foreign[len(sides[1]) :].mean() > 0.85
    assert not foreign[: len(sides[1])].any()


def test_nothing_is_foreign_where_there_is_no_third_language(sides):
    assert not is_foreign(Lines(sides[1]), learned(sides)).any()


def test_copies_do_not_vouch_for_each_other(sides):
    strange = ["zyxwv qjkpx vvqzx wxyqq xxkj jqxzv"] * 30
    lines = Lines(sides[1] + strange)
    assert not is_foreign(lines, learned([sides[0] + [""] * 30, sides[1] + strange])).any()


def is_foreign(lines: Lines, identifier: Identifier) -> np.ndarray:
    found, numbers = likelihoods(lines, identifier.log_probs())
    strangers = Strangers(identifier, 1)
    every = np.ones(len(lines), dtype=np.bool_)
    strangers.gather(lines, found[1], numbers, every)
    return strangers.foreign(lines, every)
