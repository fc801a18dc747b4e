"""Expected forms and sentences here were written by hand from the rules of German grammar, not printed by the code."""

import pytest

from attendo.sample.grammar import (
    EVERY,
    HE,
    HER,
    HIS,
    HOW_MANY,
    MANY,
    MY,
    NO,
    NONE,
    OUR,
    SHE,
    SOME,
    THE,
    THEY,
    THIS,
    WE,
    A,
    Clause,
    Coordination,
    Determiner,
    I,
    NounPhrase,
    at,
    english_infinitive,
    english_statement,
    german_infinitive,
    german_verb_last,
    number,
    prepositional,
    question,
    statement,
    time_first,
    to,
)
from attendo.sample.lexicon import (
    ACTIVITIES,
    ADJECTIVES,
    DITRANSITIVE,
    LAY,
    MODALS,
    MOTIONS,
    NOUNS,
    PLACES,
    ROUTINES,
    SEPARABLE,
    TRANSITIVE,
    WITH_DATIVE,
    Adverbial,
    Case,
)

CASES: tuple[Case, ...] = ("nominative", "accusative", "dative", "genitive")
TODAY = Adverbial(english="today", german="heute")
YESTERDAY = Adverbial(english="yesterday", german="gestern")


def phrase(determiner: Determiner, words: str, *, plural: bool = False) -> NounPhrase:
    *adjective, noun = words.split()
    return NounPhrase(
        determiner=determiner,
        noun=NOUNS[noun],
        plural=plural,
        adjective=ADJECTIVES[adjective[0]] if adjective else None,
    )


DECLENSIONS = [
    # definite article, weak endings
    (THE, "old man", False, "der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"),
    (THE, "old woman", False, "die alte Frau", "die alte Frau", "der alten Frau", "der alten Frau"),
    (THE, "small child", False, "das kleine Kind", "das kleine Kind", "dem kleinen Kind", "des kleinen Kindes"),
    (THE, "old man", True, "die alten Männer", "die alten Männer", "den alten Männern", "der alten Männer"),
    # ein, mixed endings
    (A, "old man", False, "ein alter Mann", "einen alten Mann", "einem alten Mann", "eines alten Mannes"),
    (A, "old woman", False, "eine alte Frau", "eine alte Frau", "einer alten Frau", "einer alten Frau"),
    (A, "small child", False, "ein kleines Kind", "ein kleines Kind", "einem kleinen Kind", "eines kleinen Kindes"),
    (NO, "red apple", True, "keine roten Äpfel", "keine roten Äpfel", "keinen roten Äpfeln", "keiner roten Äpfel"),
    (OUR, "old aunt", False, "unsere alte Tante", "unsere alte Tante", "unserer alten Tante", "unserer alten Tante"),
    (HIS, "new car", False, "sein neues Auto", "sein neues Auto", "seinem neuen Auto", "seines neuen Autos"),
    (HER, "new hat", False, "ihr neuer Hut", "ihren neuen Hut", "ihrem neuen Hut", "ihres neuen Huts"),
    # no article, strong endings
    (NONE, "cold beer", False, "kaltes Bier", "kaltes Bier", "kaltem Bier", "kalten Biers"),
    (NONE, "hot tea", False, "heißer Tee", "heißen Tee", "heißem Tee", "heißen Tees"),
    (NONE, "hot milk", False, "heiße Milch", "heiße Milch", "heißer Milch", "heißer Milch"),
    (NONE, "red apple", True, "rote Äpfel", "rote Äpfel", "roten Äpfeln", "roter Äpfel"),
    # numbers, viele, einige: strong endings
    (number("two", "zwei"), "red apple", True, "zwei rote Äpfel", "zwei rote Äpfel", "zwei roten Äpfeln", None),
    (MANY, "new car", True, "viele neue Autos", "viele neue Autos", "vielen neuen Autos", "vieler neuer Autos"),
    (SOME, "old book", True, "einige alte Bücher", "einige alte Bücher", "einigen alten Büchern", None),
    (HOW_MANY, "old book", True, "wie viele alte Bücher", "wie viele alte Bücher", "wie vielen alten Büchern", None),
    # dieser, jeder: weak endings
    (THIS, "old man", False, "dieser alte Mann", "diesen alten Mann", "diesem alten Mann", "dieses alten Mannes"),
    (THIS, "big cow", True, "diese großen Kühe", "diese großen Kühe", "diesen großen Kühen", "dieser großen Kühe"),
    (EVERY, "nice woman", False, "jede nette Frau", "jede nette Frau", "jeder netten Frau", "jeder netten Frau"),
    # nouns of the n-declension
    (THE, "boy", False, "der Junge", "den Jungen", "dem Jungen", "des Jungen"),
    (A, "student", False, "ein Student", "einen Studenten", "einem Studenten", "eines Studenten"),
    (THE, "neighbour", False, "der Nachbar", "den Nachbarn", "dem Nachbarn", "des Nachbarn"),
    (MY, "nephew", False, "mein Neffe", "meinen Neffen", "meinem Neffen", "meines Neffen"),
    # adjectives whose stem changes
    (A, "expensive coat", False, "ein teurer Mantel", "einen teuren Mantel", "einem teuren Mantel", None),
    (A, "tired girl", False, "ein müdes Mädchen", "ein müdes Mädchen", "einem müden Mädchen", None),
]


@pytest.mark.parametrize(("determiner", "words", "plural", *CASES), DECLENSIONS)
def test_noun_phrase_declension(determiner, words, plural, nominative, accusative, dative, genitive):
    built = phrase(determiner, words, plural=plural)
    expected = (nominative, accusative, dative, genitive)
    for case, form in zip(CASES, expected, strict=True):
        assert form is None or built.in_german(case) == form


@pytest.mark.parametrize(
    ("determiner", "words", "plural", "english"),
    [
        (A, "apple", False, "an apple"),
        (A, "old car", False, "an old car"),
        (A, "big egg", False, "a big egg"),
        (A, "university", False, "a university"),
        (A, "umbrella", False, "an umbrella"),
        (A, "hungry child", False, "a hungry child"),
        (THIS, "knife", True, "these knives"),
        (MANY, "hungry goose", True, "many hungry geese"),
    ],
)
def test_english_noun_phrases(determiner, words, plural, english):
    assert phrase(determiner, words, plural=plural).in_english() == english


def test_owner_is_genitive_behind_the_noun():
    car = NounPhrase(determiner=THE, noun=NOUNS["car"], adjective=ADJECTIVES["old"], owner=phrase(THE, "farmer"))
    assert car.in_english() == "the farmer's old car"
    assert car.in_german("accusative") == "das alte Auto des Bauern"
    assert car.combinations == {("old", "car")}


@pytest.mark.parametrize(
    ("place", "english_at", "german_at", "english_to", "german_to"),
    [
        ("market", "at the market", "auf dem Markt", "to the market", "zum Markt"),
        ("park", "in the park", "im Park", "to the park", "in den Park"),
        ("museum", "in the museum", "im Museum", "to the museum", "ins Museum"),
        ("kitchen", "in the kitchen", "in der Küche", "to the kitchen", "in die Küche"),
        ("school", "at the school", "in der Schule", "to the school", "zur Schule"),
        ("station", "at the station", "am Bahnhof", "to the station", "zum Bahnhof"),
        ("bridge", "on the bridge", "auf der Brücke", "to the bridge", "zur Brücke"),
    ],
)
def test_places(place, english_at, german_at, english_to, german_to):
    where, whither = at(PLACES[place]), to(PLACES[place])
    assert (where.english, where.german) == (english_at, german_at)
    assert (whither.english, whither.german) == (english_to, german_to)


def test_contraction_before_an_adjective():
    assert at(PLACES["park"], ADJECTIVES["old"]).german == "im alten Park"
    assert to(PLACES["museum"], ADJECTIVES["new"]).german == "ins neue Museum"


def test_preposition_with_a_pronoun_and_a_plural():
    assert prepositional("with", "mit", "dative", WE) == Adverbial(english="with us", german="mit uns")
    friends = phrase(number("three", "drei"), "old friend", plural=True)
    assert prepositional("with", "mit", "dative", friends).german == "mit drei alten Freunden"


OLD_FARMER = phrase(THE, "old farmer")
WINDOW = phrase(THE, "window")

STATEMENTS = [
    (
        Clause(
            subject=OLD_FARMER,
            verb=TRANSITIVE["buy"],
            direct=phrase(number("three", "drei"), "red apple", plural=True),
            time=TODAY,
            place=at(PLACES["market"]),
        ),
        "The old farmer buys three red apples at the market today.",
        "Der alte Bauer kauft heute drei rote Äpfel auf dem Markt.",
    ),
    (
        Clause(subject=phrase(THE, "man"), verb=SEPARABLE["open"], direct=WINDOW),
        "The man opens the window.",
        "Der Mann macht das Fenster auf.",
    ),
    (
        Clause(subject=I, verb=SEPARABLE["invite"], direct=phrase(THE, "neighbour"), time=TODAY),
        "I invite the neighbour today.",
        "Ich lade heute den Nachbarn ein.",
    ),
    (
        Clause(subject=THEY, verb=TRANSITIVE["read"], tense="past", direct=phrase(A, "new book"), time=YESTERDAY),
        "They read a new book yesterday.",
        "Sie lasen gestern ein neues Buch.",
    ),
    (
        Clause(subject=phrase(MY, "sister"), verb=SEPARABLE["call"], tense="past", direct=HE, time=YESTERDAY),
        "My sister called him yesterday.",
        "Meine Schwester rief ihn gestern an.",
    ),
    (
        Clause(
            subject=SHE,
            verb=SEPARABLE["turn off"],
            tense="perfect",
            direct=phrase(THE, "lamp"),
            adverb=Adverbial(english="already", german="schon"),
        ),
        "She has already turned off the lamp.",
        "Sie hat die Lampe schon ausgeschaltet.",
    ),
    (
        Clause(
            subject=phrase(THE, "musician"),
            verb=TRANSITIVE["wear"],
            direct=phrase(A, "black hat"),
            adverb=Adverbial(english="often", german="oft"),
        ),
        "The musician often wears a black hat.",
        "Der Musiker trägt oft einen schwarzen Hut.",
    ),
    (
        Clause(subject=WE, verb=MOTIONS["run"], tense="perfect", place=to(PLACES["lake"])),
        "We have run to the lake.",
        "Wir sind zum See gelaufen.",
    ),
    (
        Clause(subject=I, verb=ROUTINES["get up"], tense="perfect", time=TODAY),
        "I have got up today.",
        "Ich bin heute aufgestanden.",
    ),
    (
        Clause(subject=I, verb=TRANSITIVE["feed"], direct=phrase(MY, "cat")),
        "I feed my cat.",
        "Ich füttere meine Katze.",
    ),
    (
        Clause(
            subject=phrase(THE, "guest", plural=True),
            verb=TRANSITIVE["order"],
            tense="future",
            direct=phrase(NONE, "tea"),
        ),
        "The guests will order tea.",
        "Die Gäste werden Tee bestellen.",
    ),
    (
        Clause(
            subject=phrase(EVERY, "pupil"),
            verb=SEPARABLE["clean up"],
            tense="modal",
            modal=MODALS[1],
            direct=phrase(A, "desk"),
        ),
        "Every pupil must clean up a desk.",
        "Jeder Schüler muss einen Schreibtisch aufräumen.",
    ),
    (
        Clause(
            subject=phrase(THE, "child", plural=True),
            verb=SEPARABLE["put on"],
            tense="modal",
            modal=MODALS[4],
            direct=phrase(NO, "coat", plural=True),
        ),
        "The children want to put on no coats.",
        "Die Kinder wollen keine Mäntel anziehen.",
    ),
    (
        Clause(
            subject=phrase(THE, "aunt"),
            verb=DITRANSITIVE["give"],
            recipient=phrase(THE, "small child"),
            direct=phrase(A, "apple"),
            time=TODAY,
        ),
        "The aunt gives the small child an apple today.",
        "Die Tante gibt heute dem kleinen Kind einen Apfel.",
    ),
    (
        Clause(subject=HE, verb=DITRANSITIVE["lend"], recipient=THEY, direct=phrase(HIS, "car"), time=TODAY),
        "He lends them his car today.",
        "Er leiht ihnen heute sein Auto.",
    ),
    (
        Clause(subject=phrase(THE, "girl"), verb=WITH_DATIVE["help"], direct=phrase(THE, "old lady")),
        "The girl helps the old lady.",
        "Das Mädchen hilft der alten Dame.",
    ),
    (
        Clause(subject=phrase(THE, "dog"), verb=WITH_DATIVE["follow"], tense="perfect", direct=I),
        "The dog has followed me.",
        "Der Hund ist mir gefolgt.",
    ),
    (
        Clause(
            subject=phrase(THE, "boy"),
            verb=LAY,
            direct=phrase(THE, "book"),
            place=prepositional("on", "auf", "accusative", phrase(THE, "white table")),
        ),
        "The boy lays the book on the white table.",
        "Der Junge legt das Buch auf den weißen Tisch.",
    ),
    (
        Clause(subject=phrase(THE, "man"), verb=SEPARABLE["close"], direct=phrase(THE, "door"), negated=True),
        "The man does not close the door.",
        "Der Mann macht die Tür nicht zu.",
    ),
    (
        Clause(subject=WE, verb=MOTIONS["go"], tense="past", place=to(PLACES["park"]), time=YESTERDAY, negated=True),
        "We did not go to the park yesterday.",
        "Wir gingen gestern nicht in den Park.",
    ),
    (
        Clause(
            subject=Coordination(first=phrase(MY, "mother"), second=phrase(THE, "doctor")),
            verb=ACTIVITIES["play cards"],
            place=at(PLACES["kitchen"]),
        ),
        "My mother and the doctor play cards in the kitchen.",
        "Meine Mutter und der Arzt spielen in der Küche Karten.",
    ),
    (
        Clause(
            subject=phrase(THE, "cook"),
            verb=ACTIVITIES["go for a walk"],
            tense="perfect",
            place=at(PLACES["forest"]),
        ),
        "The cook has gone for a walk in the forest.",
        "Der Koch ist im Wald spazieren gegangen.",
    ),
    (
        Clause(
            subject=phrase(THE, "nurse"),
            verb=SEPARABLE["close"],
            direct=phrase(THE, "white door"),
            manner=Adverbial(english="quietly", german="leise"),
        ),
        "The nurse closes the white door quietly.",
        "Die Krankenschwester macht die weiße Tür leise zu.",
    ),
]


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS)
def test_statements(clause, english, german):
    said = statement(clause)
    assert (said.english, said.german) == (english, german)


def test_verb_stays_second_after_a_time():
    said = time_first(Clause(subject=OLD_FARMER, verb=SEPARABLE["open"], direct=WINDOW, time=TODAY))
    assert said.english == "Today, the old farmer opens the window."
    assert said.german == "Heute macht der alte Bauer das Fenster auf."


def test_questions():
    clause = Clause(subject=OLD_FARMER, verb=SEPARABLE["open"], direct=WINDOW)
    assert question(clause).english == "Does the old farmer open the window?"
    assert question(clause).german == "Macht der alte Bauer das Fenster auf?"
    past = Clause(subject=THEY, verb=TRANSITIVE["buy"], tense="past", direct=phrase(THE, "cheese"))
    assert question(past, "where", "wo").english == "Where did they buy the cheese?"
    assert question(past, "where", "wo").german == "Wo kauften sie den Käse?"
    perfect = Clause(subject=SHE, verb=MOTIONS["drive"], tense="perfect", place=to(PLACES["city"]))
    assert question(perfect).english == "Has she driven to the city?"
    assert question(perfect).german == "Ist sie in die Stadt gefahren?"


@pytest.mark.parametrize(
    ("tense", "english", "german"),
    [
        ("present", "the man opens the window", "der Mann das Fenster aufmacht"),
        ("past", "the man opened the window", "der Mann das Fenster aufmachte"),
        ("perfect", "the man has opened the window", "der Mann das Fenster aufgemacht hat"),
        ("future", "the man will open the window", "der Mann das Fenster aufmachen wird"),
    ],
)
def test_verb_is_last_in_subordinate_clauses(tense, english, german):
    clause = Clause(subject=phrase(THE, "man"), verb=SEPARABLE["open"], tense=tense, direct=WINDOW)
    assert english_statement(clause) == english
    assert german_verb_last(clause) == german


def test_complement_stands_before_the_last_verb():
    clause = Clause(subject=WE, verb=ACTIVITIES["play football"], place=at(PLACES["park"]))
    assert german_verb_last(clause) == "wir im Park Fußball spielen"


@pytest.mark.parametrize(
    ("verb", "thing", "english", "german"),
    [
        (SEPARABLE["open"], WINDOW, "to open the window", "das Fenster aufzumachen"),
        (TRANSITIVE["look for"], phrase(THE, "key"), "to look for the key", "den Schlüssel zu suchen"),
        (ACTIVITIES["play football"], None, "to play football", "Fußball zu spielen"),
        (WITH_DATIVE["help"], phrase(THE, "guest"), "to help the guest", "dem Gast zu helfen"),
    ],
)
def test_infinitive_with_zu(verb, thing, english, german):
    clause = Clause(subject=HE, verb=verb, direct=thing)
    assert (english_infinitive(clause), german_infinitive(clause)) == (english, german)


def test_combinations_name_adjective_noun_verb_and_object():
    clause = Clause(
        subject=OLD_FARMER,
        verb=SEPARABLE["turn on"],
        direct=phrase(THE, "new lamp"),
        place=at(PLACES["kitchen"], ADJECTIVES["warm"]),
    )
    assert clause.combinations == {
        ("old", "farmer"),
        ("farmer", "turn on"),
        ("turn on", "lamp"),
        ("new", "lamp"),
        ("warm", "kitchen"),
    }


def test_clause_without_what_its_order_needs_is_an_error():
    with pytest.raises(ValueError, match="no time"):
        time_first(Clause(subject=HE, verb=TRANSITIVE["read"]))
    with pytest.raises(ValueError, match="no modal"):
        statement(Clause(subject=HE, verb=TRANSITIVE["read"], tense="modal"))
