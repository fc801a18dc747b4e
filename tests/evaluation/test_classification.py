"""Accuracy, F1 and confusions against their definitions, counted item by item."""

import random
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from attendo.errors import DataError
from attendo.evaluation.classification import classification_scores, confusion_picture

LABELS = ("a", "b<c", "d", "never")


def sample(n: int = 97) -> tuple[list[int], list[int]]:
    rng = random.Random(3)
    truth = [rng.choice([0, 0, 1, 2]) for _ in range(n)]
    return truth, [one if rng.random() < 0.7 else rng.randrange(3) for one in truth]


def test_the_numbers_are_those_of_counting() -> None:
    truth, guesses = sample()
    scores = classification_scores(truth, guesses, LABELS)
    pairs = list(zip(truth, guesses, strict=True))
    assert scores.accuracy == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))
    expected = []
    for label in range(3):
        right = sum(one == other == label for one, other in pairs)
        precision, recall = right / guesses.count(label), right / truth.count(label)
        expected.append(2 * precision * recall / (precision + recall))
    assert scores.f1 == pytest.approx([*expected, 0.0])
    assert scores.macro_f1 == pytest.approx(
        sum(expected) / 3
    )  # a label that nobody has and nobody gives does not count
    assert scores.matrix.tolist() == [[pairs.count((i, j)) for j in range(4)] for i in range(4)]
    assert scores.to_json()["confusion"] == scores.matrix.tolist()


def test_it_agrees_with_scikit_learn_where_that_is_installed() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, guesses = sample()
    scores = classification_scores(truth, guesses, LABELS)
    assert scores.macro_f1 == pytest.approx(metrics.f1_score(truth, guesses, average="macro"))
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(truth, guesses))
    right = np.array(truth) == np.array(guesses)
    assert scores.standard_error == pytest.approx(right.std() / np.sqrt(len(right)))


def test_a_label_that_is_never_told_right() -> None:
    scores = classification_scores([0, 1, 1], [0, 0, 0], ("x", "y"))
    assert scores.f1 == pytest.approx((0.5, 0.0)) and scores.macro_f1 == pytest.approx(0.25)


def test_the_picture_has_every_number_and_label() -> None:
    truth, guesses = sample()
    scores = classification_scores(truth, guesses, LABELS)
    picture = ET.fromstring(confusion_picture(scores))
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert [int(one) for one in texts if one and one.isdigit()] == scores.matrix.flatten().tolist()
    assert texts.count("b<c") == 2


@pytest.mark.parametrize("labels", [("x", "y"), tuple(f"a label with the number {i}" for i in range(30))])
def test_there_is_room_for_the_title_of_the_picture(labels: tuple[str, ...]) -> None:
    picture = ET.fromstring(confusion_picture(classification_scores([0, 1], [0, 1], labels)))
    title = next(picture.iter("{http://www.w3.org/2000/svg}text"))
    assert title.text is not None and "told as" in title.text
    assert float(picture.attrib["width"]) >= float(title.attrib["x"]) + 6.5 * len(title.text)


def test_unequal_or_nothing() -> None:
    with pytest.raises(DataError, match="2 labels and 1 guesses"):
        classification_scores([0, 1], [0], ("x", "y"))
    with pytest.raises(DataError, match="0 labels"):
        classification_scores([], [], ("x", "y"))
