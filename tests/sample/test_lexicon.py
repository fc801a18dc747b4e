import pytest

from attendo.sample import lexicon
from attendo.sample.lexicon import ADJECTIVES, NOUNS, PLACES, SEPARABLE, TRANSITIVE, Verb, nouns_of

VERB_TABLES = [table for table in vars(lexicon).values() if isinstance(table, dict)]
VERBS: list[Verb] = [entry for table in VERB_TABLES for entry in table.values() if isinstance(entry, Verb)]


@pytest.mark.parametrize(
    ("noun", "gender", "plural", "dative_plural", "genitive"),
    [
        ("apple", "masculine", "Äpfel", "Äpfeln", "Apfels"),
        ("child", "neuter", "Kinder", "Kindern", "Kindes"),
        ("woman", "feminine", "Frauen", "Frauen", "Frau"),
        ("car", "neuter", "Autos", "Autos", "Autos"),
        ("house", "neuter", "Häuser", "Häusern", "Hauses"),
        ("bear", "masculine", "Bären", "Bären", "Bären"),
        ("singer", "feminine", "Sängerinnen", "Sängerinnen", "Sängerin"),
    ],
)
def test_noun_entries(noun, gender, plural, dative_plural, genitive):
    entry = NOUNS[noun]
    assert entry.gender == gender
    assert entry.decline("nominative", plural=True) == plural
    assert entry.decline("dative", plural=True) == dative_plural
    assert entry.decline("genitive", plural=False) == genitive


def test_separable_prefix_and_particle_are_read_from_the_table():
    turn_on = SEPARABLE["turn on"]
    assert (turn_on.base, turn_on.particle, turn_on.prefix, turn_on.infinitive) == ("turn", "on", "ein", "schalten")
    assert lexicon.ACTIVITIES["go for a walk"].complement == "spazieren"


def test_adjective_comparison():
    old, expensive = ADJECTIVES["old"], ADJECTIVES["expensive"]
    assert (old.english_comparative, old.comparative, old.stem) == ("older", "älter", "alt")
    assert (expensive.english_comparative, expensive.comparative) == ("more expensive", "teurer")
    assert (expensive.predicate, expensive.stem) == ("teuer", "teur")


def test_categories():
    assert [noun.english for noun in nouns_of("@dish apple")] == ["soup", "apple"]
    assert TRANSITIVE["read"].objects == nouns_of("@text")
    assert PLACES["market"].noun is NOUNS["market"]


def test_german_nouns_are_capitalised_and_nothing_else_is():
    for noun in NOUNS.values():
        assert noun.german[0].isupper() and (noun.german_plural[0].isupper() or not noun.countable)
    for adjective in ADJECTIVES.values():
        assert (adjective.predicate + adjective.comparative + adjective.stem).islower()
    for verb in VERBS:
        assert (verb.infinitive + verb.german_third + verb.preterite + verb.participle + verb.prefix).islower()


def test_german_verb_entries_have_the_shape_of_german_verbs():
    assert len(VERBS) > 50
    for verb in VERBS:
        assert verb.infinitive.endswith(("en", "ern")), verb.name
        assert verb.german_third.endswith("t") or verb.german_third == "weiß", verb.name
        assert verb.participle.endswith(("t", "en")), verb.name


def test_english_words_tell_singular_from_plural():
    for noun in NOUNS.values():
        assert noun.english != noun.english_plural
