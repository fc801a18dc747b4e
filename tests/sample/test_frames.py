import itertools
import random
from collections.abc import Iterator

import pytest

from attendo.sample.frames import Either, Frame, frames
from attendo.sample.grammar import NounPhrase, Pronoun, Sentence
from attendo.sample.lexicon import Adjective, Adverbial


def frame(name: str) -> Frame:
    (found,) = (each for each in frames() if each.name == name)
    return found


def mentioned(value: object, english: str) -> bool:
    """Whether a choice can lead to the sentence; True for choices that have no words of their own."""
    match value:
        case Adverbial():
            words = [value.english]
        case NounPhrase() | Pronoun():
            words = [value.in_english(), value.in_english(is_object=True)]
        case Adjective():
            words = [value.english, value.english_comparative]
        case _:
            return True
    return any(word.casefold() in english.casefold() for word in words)


def sentences(found: Frame, *, like: str | None = None) -> Iterator[Sentence]:
    """Every sentence of the frame, or only those whose parts occur in `like`."""
    for cell in found.cells:
        slots = []
        for slot in cell.slots:
            values = [value for each in slot.lists for value in each] if isinstance(slot, Either) else slot
            slots.append([value for value in values if like is None or mentioned(value, like)])
        for chosen in itertools.product(*slots):
            yield cell.build(*chosen)


# A sentence of each frame that does more than fill a clause, translated by hand.
EXAMPLES = [
    ("there is, es gibt", "There are many old trees in the park.", "Im Park gibt es viele alte Bäume."),
    ("there is, es gibt", "There is a wild bear in the forest.", "Im Wald gibt es einen wilden Bären."),
    ("comparison", "My car is faster than the red bus.", "Mein Auto ist schneller als der rote Bus."),
    (
        "comparison",
        "These lamps are cheaper than the white clocks.",
        "Diese Lampen sind billiger als die weißen Uhren.",
    ),
    ("whose it is and how it is", "The farmer's tractor is old and red.", "Der Traktor des Bauern ist alt und rot."),
    ("to be very so", "These novels are too long.", "Diese Romane sind zu lang."),
    ("request", "Please close the big window today!", "Bitte machen Sie heute das große Fenster zu!"),
    (
        "passive",
        "The truck was repaired by the mechanic yesterday.",
        "Der Lastwagen wurde gestern vom Mechaniker repariert.",
    ),
    ("passive", "The old boxes were thrown away last week.", "Die alten Kisten wurden letzte Woche weggeworfen."),
    (
        "two-way preposition with dative",
        "There are two blue cups on the table.",
        "Auf dem Tisch stehen zwei blaue Tassen.",
    ),
    (
        "two-way preposition with dative",
        "The new maps lie next to the old bed.",
        "Die neuen Karten liegen neben dem alten Bett.",
    ),
    ("who, whom", "Who opened the heavy gate yesterday?", "Wer machte gestern das schwere Tor auf?"),
    ("who, whom", "Who does the rich lawyer help today?", "Wem hilft der reiche Anwalt heute?"),
    ("who, whom", "Who does the rich lawyer visit today?", "Wen besucht der reiche Anwalt heute?"),
    (
        "because, weil",
        "The nurse is happy because she has found the key.",
        "Die Krankenschwester ist glücklich, weil sie den Schlüssel gefunden hat.",
    ),
    (
        "relative clause about the object",
        "The letter that my father has read is sad.",
        "Der Brief, den mein Vater gelesen hat, ist traurig.",
    ),
    (
        "relative clause about the subject",
        "The woman who opens the windows is nice.",
        "Die Frau, die die Fenster aufmacht, ist nett.",
    ),
    ("routine at an hour", "Today, the train departs at eight o'clock.", "Heute fährt der Zug um acht Uhr ab."),
    (
        "when, wenn",
        "When it rains, the boys play cards in the kitchen.",
        "Wenn es regnet, spielen die Jungen in der Küche Karten.",
    ),
    ("like to, gern", "Anna likes to drink cold juice in the garden.", "Anna trinkt gern kalten Saft im Garten."),
]


@pytest.mark.parametrize(("name", "english", "german"), EXAMPLES)
def test_frame_makes_its_example(name, english, german):
    made = {each.english: each.german for each in sentences(frame(name), like=english)}
    assert made[english] == german


def test_there_are_at_least_twenty_frames_with_names_of_their_own():
    assert len(frames()) >= 20
    assert len({each.name for each in frames()}) == len(frames())


def test_count_is_the_number_of_distinct_sentences_of_a_frame():
    for name in ("there is, es gibt", "to be very so", "request"):
        made = [each.english for each in sentences(frame(name))]
        assert len(set(made)) == len(made) == frame(name).count


@pytest.mark.parametrize("found", frames(), ids=lambda found: found.name)
def test_different_choices_give_different_sentences(found):
    rng = random.Random(11)
    chosen: dict[str, tuple[int, tuple[object, ...]]] = {}
    for _ in range(300):
        index = rng.randrange(len(found.cells))
        cell = found.cells[index]
        values = tuple(slot.draw(rng) if isinstance(slot, Either) else rng.choice(slot) for slot in cell.slots)
        said = cell.build(*values)
        assert chosen.setdefault(said.english, (index, values)) == (index, values)


@pytest.mark.parametrize("found", frames(), ids=lambda found: found.name)
def test_sentences_are_well_formed_text(found):
    rng = random.Random(13)
    for _ in range(200):
        said = found.draw(rng)
        for text in (said.english, said.german):
            assert text[0].isupper() and text[-1] in ".?!"
            assert "  " not in text and " ," not in text and text == text.strip()
            assert all(character.isalpha() or character in " ,.?!'-" for character in text)


@pytest.mark.proof
def test_half_a_million_distinct_sentences_from_one_frame():
    made = itertools.islice(sentences(frame("pronoun object")), 600_000)
    assert len({each.english for each in made}) == 600_000
