"""The sentence frames of the sample corpus.

A frame is a list of cells; a cell is a function and, for each of its arguments, the list of values it may take. A
sentence is one choice from each list. So a frame has Σ over its cells of Π over their lists sentences, which can be
counted without making them, and each can be drawn by a handful of random choices.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import Any, Literal

from attendo.sample.grammar import (
    BE,
    DEFINITE_ARTICLE,
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
    SEIN,
    SHE,
    SOME,
    THE,
    THEIR,
    THEY,
    THIS,
    WE,
    WHO,
    A,
    Agreement,
    Clause,
    Combination,
    Coordination,
    Determiner,
    I,
    Nominal,
    NounPhrase,
    Pronoun,
    Sentence,
    Tense,
    at,
    english_infinitive,
    english_statement,
    german_infinitive,
    german_statement,
    german_verb_first,
    german_verb_last,
    german_verb_last_without_subject,
    number,
    prepositional,
    present,
    question,
    sentence,
    statement,
    time_first,
    to,
)
from attendo.sample.lexicon import (
    ACTIVITIES,
    ADJECTIVES,
    ATTEMPTS,
    CLOCK_TIMES,
    COLOURS,
    DEGREES,
    DITRANSITIVE,
    FREQUENCIES,
    FUTURE_TIMES,
    JOURNEYS,
    LAY,
    LIE,
    MANNERS,
    MODALS,
    MOODS,
    MOTIONS,
    NOUNS,
    NUMBERS,
    PAST_TIMES,
    PERFECT_ADVERBS,
    PLACES,
    PRESENT_TIMES,
    PUT,
    ROUTINES,
    SEPARABLE,
    STAND,
    THOUGHTS,
    TOWNS,
    TRANSITIVE,
    WEATHER,
    WITH_DATIVE,
    Adjective,
    Adverbial,
    Modal,
    Noun,
    Place,
    Verb,
    nouns_of,
)


class Either:
    """A choice from one of several lists, each list as likely as the others however long it is."""

    def __init__(self, *lists: Sequence[Any]) -> None:
        self.lists = lists

    def __len__(self) -> int:
        return sum(map(len, self.lists))

    def draw(self, rng: random.Random) -> Any:
        return rng.choice(rng.choice(self.lists))


Slot = Sequence[Any] | Either


@dataclass(frozen=True, kw_only=True)
class Cell:
    """`build` of one value from each of `slots` is a sentence; different values give different sentences."""

    build: Callable[..., Sentence]
    slots: tuple[Slot, ...]

    @property
    def count(self) -> int:
        return prod(len(slot) for slot in self.slots)

    def draw(self, rng: random.Random) -> Sentence:
        values = (slot.draw(rng) if isinstance(slot, Either) else rng.choice(slot) for slot in self.slots)
        return self.build(*values)


@dataclass(frozen=True, kw_only=True)
class Frame:
    name: str
    cells: tuple[Cell, ...]

    @property
    def count(self) -> int:
        return sum(cell.count for cell in self.cells)

    def draw(self, rng: random.Random) -> Sentence:
        return rng.choice(self.cells).draw(rng)


# ---------------------------------------------------------------- lists of noun phrases

Form = tuple[Determiner, bool]
"""A determiner, and whether it goes with the plural."""

COUNTS: tuple[Form, ...] = tuple(
    (number(english, NUMBERS[english]), True) for english in ("two", "three", "four", "five", "six", "ten")
)
COUNTS += ((MANY, True), (SOME, True))


def phrases(nouns: Iterable[Noun], forms: Iterable[Form], *, described: bool) -> list[NounPhrase]:
    """Every noun in every form, with each adjective that fits it (`described`) or with none."""
    return [
        NounPhrase(determiner=determiner, noun=noun, plural=plural, adjective=adjective)
        for noun in nouns
        for determiner, plural in forms
        if noun.countable or not plural
        for adjective in (noun.adjectives if described else (None,))
    ]


PEOPLE = nouns_of("@person @youth")
ACQUAINTANCES = nouns_of("@acquaintance")
RELATIVES = nouns_of("@relative")
FAMILY = nouns_of("@family")
NAMES = phrases(nouns_of("@name"), [(NONE, False)], described=False)

OWN: tuple[Form, ...] = ((MY, False), (OUR, False))
THE_ONE: tuple[Form, ...] = ((THE, False),)
THE_ONE_OR_MORE: tuple[Form, ...] = ((THE, False), (THE, True))

PRONOUNS = (I, HE, SHE, WE, THEY)
PLAIN_SUBJECTS = Either(
    phrases(PEOPLE, THE_ONE_OR_MORE, described=False),
    [*phrases(FAMILY, OWN, described=False), *NAMES],
    PRONOUNS,
)
ASKED_ABOUT = Either(
    phrases(PEOPLE, THE_ONE_OR_MORE, described=False),
    [*phrases(FAMILY, OWN, described=False), *NAMES],
    (HE, SHE, THEY),
)
"""Of whom one asks; nobody asks whether he himself reads a book."""

DESCRIBED_SUBJECTS = Either(
    phrases(PEOPLE, [*THE_ONE_OR_MORE, (A, False), (THIS, False)], described=True),
    phrases(FAMILY, OWN, described=True),
)
OTHERS = phrases(ACQUAINTANCES, THE_ONE_OR_MORE, described=False) + phrases(RELATIVES, OWN, described=False)

TAKES_KNOWN_THINGS = [verb for verb in SEPARABLE.values() if verb.name not in ("bring along", "pack", "put on")]

Kind = Literal["natural", "definite", "indefinite", "counted", "bare", "none"]


def objects(verb: Verb, kind: Kind, *, described: bool) -> list[NounPhrase]:
    """What the verb can be about: the apples, an apple, six apples, apples, no apples. (My aunt stays my aunt.)

    "natural" is what one would say without knowing more: one closes the window, but reads a book.
    """
    if kind == "natural":
        kind = "definite" if verb in TAKES_KNOWN_THINGS else "indefinite"
    found: list[NounPhrase] = []
    for noun in verb.objects:
        forms: tuple[Form, ...]
        match kind:
            case "definite":
                forms = OWN if noun.category == "relative" else THE_ONE_OR_MORE
            case "indefinite":
                forms = ((A if noun.countable else NONE, False),)
                forms = OWN if noun.category == "relative" else forms
            case "counted":
                forms = () if noun.category == "relative" else COUNTS
            case "bare":
                forms = ((NONE, noun.countable),)
            case "none":
                forms = ((NO, noun.countable),)
        found += phrases([noun], forms, described=described)
    return found


def _pick(verbs: dict[str, Verb], names: str) -> list[Verb]:
    return [verbs[name] for name in names.split()]


def _with_objects(
    build: Callable[..., Sentence],
    verbs: Iterable[Verb],
    kind: Kind,
    *slots: Slot,
    plain_subjects: Either = PLAIN_SUBJECTS,
) -> Iterator[Cell]:
    """For each verb a cell with adjectives in the object, one with adjectives in the subject, one with both."""
    for verb in verbs:
        for subjects, described in (
            (plain_subjects, True),
            (DESCRIBED_SUBJECTS, False),
            (DESCRIBED_SUBJECTS, True),
        ):
            found = objects(verb, kind, described=described)
            if found:
                yield Cell(build=partial(build, verb), slots=(subjects, found, *slots))


def _where(verb: Verb, *, described: bool = False) -> list[Adverbial]:
    return [
        at(place, adjective) for place in verb.places for adjective in (place.noun.adjectives if described else (None,))
    ]


TODAY = PRESENT_TIMES[0]

TIMES_OF: tuple[tuple[Tense, tuple[Adverbial, ...]], ...] = (
    ("present", PRESENT_TIMES),
    ("past", PAST_TIMES),
    ("future", FUTURE_TIMES),
)
"""The tense and the time go together, and so tell "they read it every day" from "they read it yesterday"."""

ALL_TRANSITIVE = [*TRANSITIVE.values(), *SEPARABLE.values()]
WITH_PLACES = [verb for verb in TRANSITIVE.values() if verb.places]
ABOUT_PEOPLE = [*_pick(TRANSITIVE, "visit meet"), *_pick(SEPARABLE, "invite call"), SEPARABLE["pick up"]]
ABOUT_THINGS = [verb for verb in ALL_TRANSITIVE if verb not in ABOUT_PEOPLE]
INTENDED = [verb for verb in ABOUT_THINGS if verb.name not in ("lose", "wear", "see", "find")]
PLANNED = [verb for verb in ALL_TRANSITIVE if verb not in (TRANSITIVE["lose"], TRANSITIVE["find"])]
COUNTABLE_DEEDS = _pick(TRANSITIVE, "buy sell see draw photograph find eat cook bake order read write repair wash")

# ---------------------------------------------------------------- one clause


def _frame(cells: Iterable[Cell], name: str) -> Frame:
    return Frame(name=name, cells=tuple(cells))


def something_today() -> Frame:
    """The young painter buys a hat today. → Der junge Maler kauft heute einen Hut."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, direct=direct, time=time))

    return _frame(_with_objects(build, PLANNED, "natural", PRESENT_TIMES), "something today")


def counted_there() -> Frame:
    """The farmers sell six red apples at the market. → Die Bauern verkaufen sechs rote Äpfel auf dem Markt."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, place: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, direct=direct, place=place))

    return _frame(
        (
            cell
            for verb in COUNTABLE_DEEDS
            if verb.places
            for cell in _with_objects(build, [verb], "counted", _where(verb))
        ),
        "counted things at a place",
    )


def everything_at_once() -> Frame:
    """The old farmer buys three red apples at the market today.

    → Der alte Bauer kauft heute drei rote Äpfel auf dem Markt.
    """

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, place: Adverbial, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, direct=direct, place=place, time=time))

    return _frame(
        (
            Cell(
                build=partial(build, verb),
                slots=(
                    DESCRIBED_SUBJECTS,
                    objects(verb, "counted", described=True),
                    _where(verb),
                    PRESENT_TIMES,
                ),
            )
            for verb in COUNTABLE_DEEDS
            if verb.places
        ),
        "subject, verb, object, place and time",
    )


def time_in_front() -> Frame:
    """In the evening, the tired mother closes the windows. → Am Abend macht die müde Mutter die Fenster zu."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, direct=direct, time=time))

    return _frame(_with_objects(build, PLANNED, "definite", PRESENT_TIMES), "time in front, present")


def past() -> Frame:
    """The boy lost the new key yesterday. → Der Junge verlor gestern den neuen Schlüssel."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="past", direct=direct, time=time))

    return _frame(_with_objects(build, ALL_TRANSITIVE, "definite", PAST_TIMES), "past")


def past_time_in_front() -> Frame:
    """Last week, the girls met a famous doctor. → Letzte Woche trafen die Mädchen einen berühmten Arzt."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, tense="past", direct=direct, time=time))

    return _frame(_with_objects(build, ALL_TRANSITIVE, "natural", PAST_TIMES), "time in front, past")


def perfect() -> Frame:
    """The guest has already turned off the old radio. → Der Gast hat das alte Radio schon ausgeschaltet."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, adverb: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="perfect", direct=direct, adverb=adverb))

    return _frame(
        _with_objects(build, [*ALL_TRANSITIVE, *WITH_DATIVE.values()], "definite", PERFECT_ADVERBS), "perfect"
    )


def future() -> Frame:
    """We will invite the nice neighbour tomorrow. → Wir werden morgen den netten Nachbarn einladen."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="future", direct=direct, time=time))

    return _frame(_with_objects(build, [*PLANNED, *WITH_DATIVE.values()], "definite", FUTURE_TIMES), "future")


def modal() -> Frame:
    """Every pupil must read a long book today. → Jeder Schüler muss heute ein langes Buch lesen."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, modal: Modal, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="modal", modal=modal, direct=direct, time=time))

    everyone = phrases(PEOPLE, [(EVERY, False)], described=False)
    times = (*PRESENT_TIMES, *FUTURE_TIMES)
    verbs = [verb for verb in INTENDED if verb.name != "look for"]
    every = (
        Cell(
            build=partial(build, verb),
            slots=(everyone, objects(verb, "natural", described=True), MODALS, times),
        )
        for verb in verbs
    )
    return _frame([*_with_objects(build, verbs, "definite", MODALS, times), *every], "modal verb")


def ditransitive() -> Frame:
    """The aunt shows the curious guest a picture. → Die Tante zeigt dem neugierigen Gast ein Bild."""

    def build(
        verb: Verb,
        tense: Tense,
        subject: Nominal,
        recipient: Nominal,
        direct: NounPhrase,
        time: Adverbial,
    ) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense=tense, recipient=recipient, direct=direct, time=time))

    recipients = [
        phrases(ACQUAINTANCES, [*THE_ONE_OR_MORE, (A, False)], described=True),
        phrases(RELATIVES, OWN, described=True),
    ]
    return _frame(
        (
            Cell(
                build=partial(build, verb, tense),
                slots=(PLAIN_SUBJECTS, people, objects(verb, "natural", described=False), times),
            )
            for verb in DITRANSITIVE.values()
            for tense, times in TIMES_OF
            for people in recipients
        ),
        "dative and accusative object",
    )


def with_pronoun() -> Frame:
    """The friendly nurse gives him a key today. → Die freundliche Krankenschwester gibt ihm heute einen Schlüssel."""

    def helped(verb: Verb, subject: Nominal, person: Pronoun, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="past", direct=person, time=time))

    def given(verb: Verb, subject: Nominal, person: Pronoun, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, recipient=person, direct=direct, time=time))

    subjects = phrases(PEOPLE, THE_ONE_OR_MORE, described=True)
    return _frame(
        [
            *(
                Cell(build=partial(helped, verb), slots=(subjects, PRONOUNS, PAST_TIMES))
                for verb in [*WITH_DATIVE.values(), *ABOUT_PEOPLE]
            ),
            *(
                Cell(
                    build=partial(given, verb),
                    slots=(subjects, PRONOUNS, objects(verb, "natural", described=False), PRESENT_TIMES),
                )
                for verb in DITRANSITIVE.values()
            ),
        ],
        "pronoun object",
    )


def dative_verb() -> Frame:
    """The students thank the old professor today. → Die Studenten danken heute dem alten Professor."""

    def build(tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense=tense, direct=direct, time=time))

    verbs = list(WITH_DATIVE.values())
    return _frame(
        [
            *_with_objects(partial(build, "present"), verbs, "definite", PRESENT_TIMES),
            *_with_objects(partial(build, "past"), verbs, "definite", PAST_TIMES),
        ],
        "verb with dative",
    )


def together(place: Adverbial, companion: Adverbial) -> Adverbial:
    """to the park with my aunt, mit meiner Tante in den Park"""
    return Adverbial(
        english=f"{place.english} {companion.english}",
        german=f"{companion.german} {place.german}",
        combinations=place.combinations | companion.combinations,
    )


def direction() -> Frame:
    """The man drives to the lake with my uncle on Monday. → Der Mann fährt am Montag mit meinem Onkel zum See."""

    def build(verb: Verb, subject: Nominal, place: Adverbial, companion: NounPhrase, time: Adverbial) -> Sentence:
        way = together(place, prepositional("with", "mit", "dative", companion))
        return statement(Clause(subject=subject, verb=verb, place=way, time=time))

    def alone(tense: Tense, verb: Verb, subject: Nominal, place: Adverbial, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, tense=tense, place=place, time=time))

    cells = []
    for verb in MOTIONS.values():
        plain = [to(place) for place in verb.places]
        described = [to(place, adjective) for place in verb.places for adjective in place.noun.adjectives]
        cells += [
            Cell(build=partial(build, verb), slots=(PLAIN_SUBJECTS, plain, OTHERS, PRESENT_TIMES)),
            Cell(build=partial(alone, "past", verb), slots=(PLAIN_SUBJECTS, described, PAST_TIMES)),
            Cell(build=partial(alone, "perfect", verb), slots=(DESCRIBED_SUBJECTS, plain, (TODAY,))),
        ]
    return _frame(cells, "direction")


def journey() -> Frame:
    """Next week, our aunt will fly to Vienna. → Nächste Woche wird unsere Tante nach Wien fliegen."""

    def build(tense: Tense, verb: Verb, subject: Nominal, town: Adverbial, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, tense=tense, place=town, time=time))

    return _frame(
        (
            Cell(build=partial(build, tense, verb), slots=(subjects, TOWNS, times))
            for verb in JOURNEYS.values()
            for subjects in (PLAIN_SUBJECTS, DESCRIBED_SUBJECTS)
            for tense, times in TIMES_OF[1:]
        ),
        "journey",
    )


def activity() -> Frame:
    """The children often play football in the big park. → Die Kinder spielen oft im großen Park Fußball."""

    def build(verb: Verb, subject: Nominal, adverb: Adverbial, place: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, adverb=adverb, place=place))

    def done(verb: Verb, subject: Nominal, place: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, tense="perfect", place=place, time=TODAY))

    def was(verb: Verb, subject: Nominal, place: Adverbial, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="past", place=place, time=time))

    cells = []
    for verb in ACTIVITIES.values():
        plain, described = _where(verb), _where(verb, described=True)
        cells += [
            Cell(build=partial(build, verb), slots=(PLAIN_SUBJECTS, FREQUENCIES, described)),
            Cell(build=partial(done, verb), slots=(DESCRIBED_SUBJECTS, plain)),
            Cell(build=partial(was, verb), slots=(PLAIN_SUBJECTS, plain, PAST_TIMES)),
        ]
    return _frame(cells, "activity at a place")


def routine() -> Frame:
    """Every day, my father gets up at six o'clock. → Jeden Tag steht mein Vater um sechs Uhr auf."""

    def build(tense: Tense, verb: Verb, subject: Nominal, clock: Adverbial, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, tense=tense, place=clock, time=time))

    days = {"today", "every day", "on Monday", "on Saturday", "yesterday", "last Friday", "last Sunday"}
    days |= {"tomorrow", "next Tuesday", "in two days"}
    vehicles = phrases(nouns_of("train bus ship"), [(THE, False), (THIS, False)], described=False)
    cells = []
    for tense, times in TIMES_OF:
        chosen = [time for time in times if time.english in days]
        for verb in ROUTINES.values():
            subjects: list[Slot] = [PLAIN_SUBJECTS, DESCRIBED_SUBJECTS]
            if verb.name in ("arrive", "depart"):
                subjects = [vehicles]
            cells += [
                Cell(build=partial(build, tense, verb), slots=(people, CLOCK_TIMES, chosen)) for people in subjects
            ]
    return _frame(cells, "routine at an hour")


SURFACES = nouns_of("table chair bed shelf sofa desk bench")
SHELTERS = nouns_of("table chair bed sofa bench")
BIG = nouns_of("bed shelf sofa cupboard")


def _positions(things: tuple[Noun, ...]) -> tuple[tuple[str, str, tuple[Noun, ...]], ...]:
    """English preposition, German one, and what it relates to; only flat things go into bags and drawers."""
    flat = NOUNS["book"] in things
    return (
        ("on", "auf", SURFACES),
        ("in", "in", nouns_of("bag box suitcase basket cupboard drawer" if flat else "cupboard")),
        ("under", "unter", SHELTERS),
        ("next to", "neben", SURFACES),
        ("behind", "hinter", BIG),
        ("in front of", "vor", BIG),
    )


def two_way() -> Frame:
    """The boy lays the book on the white table. → Der Junge legt das Buch auf den weißen Tisch. (accusative)"""

    def build(tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, place: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense=tense, direct=direct, place=place))

    def earlier(verb: Verb, subject: Nominal, direct: NounPhrase, place: Adverbial, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="past", direct=direct, place=place, time=time))

    cells = []
    for verb in (LAY, PUT):
        for english, german, nouns in _positions(verb.objects):
            ways = [
                prepositional(english, german, "accusative", phrase)
                for phrase in phrases(nouns, THE_ONE, described=True)
            ]
            short = [
                prepositional(english, german, "accusative", phrase)
                for phrase in phrases(nouns, THE_ONE, described=False)
            ]
            definite = objects(verb, "definite", described=False)
            cells += [
                Cell(build=partial(build, "present", verb), slots=(PLAIN_SUBJECTS, definite, ways)),
                Cell(build=partial(build, "perfect", verb), slots=(PLAIN_SUBJECTS, definite, ways)),
                Cell(build=partial(earlier, verb), slots=(PLAIN_SUBJECTS, definite, short, PAST_TIMES)),
            ]
    return _frame(cells, "two-way preposition with accusative")


def position() -> Frame:
    """The old map lies next to the bed. → Die alte Karte liegt neben dem Bett. (dative)

    There are two blue cups on the table. → Auf dem Tisch stehen zwei blaue Tassen.
    """

    def build(verb: Verb, subject: NounPhrase, place: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, place=place))

    def there_is(verb: Verb, subject: NounPhrase, place: Adverbial) -> Sentence:
        return sentence(
            f"there {BE[subject.agreement]} {subject.in_english()} {place.english}",
            f"{place.german} {present(verb, subject.agreement)} {subject.in_german('nominative')}",
            subject.combinations | place.combinations | {(subject.noun.english, verb.name)},
        )

    cells = []
    for verb in (LIE, STAND):
        for english, german, nouns in _positions(verb.objects):
            spots = {
                described: [
                    prepositional(english, german, "dative", phrase)
                    for phrase in phrases(nouns, THE_ONE, described=described)
                ]
                for described in (False, True)
            }
            cells += [
                Cell(
                    build=partial(build, verb),
                    slots=(phrases(verb.objects, THE_ONE_OR_MORE, described=True), spots[True]),
                ),
                Cell(
                    build=partial(there_is, verb),
                    slots=(phrases(verb.objects, [*COUNTS, (A, False)], described=True), spots[False]),
                ),
            ]
    return _frame(cells, "two-way preposition with dative")


SIGHTS: tuple[tuple[str, str], ...] = (
    ("park", "tree rose bench duck bird café"),
    ("city", "museum church restaurant theatre hotel shop tower school"),
    ("village", "church bakery house farm school tree cow"),
    ("zoo", "lion bear elephant monkey bird rabbit"),
    ("forest", "tree bird mushroom bear mouse"),
    ("market", "apple pear tomato cherry potato carrot egg"),
    ("harbour", "ship boat restaurant tower"),
    ("street", "car bicycle bus house shop tree"),
    ("garden", "tree rose bench cat rabbit bird"),
    ("farm", "cow pig horse goose tractor dog"),
)


def there_is() -> Frame:
    """There are many old trees in the park. → Im Park gibt es viele alte Bäume."""

    def build(place: Place, thing: NounPhrase) -> Sentence:
        where = at(place)
        return sentence(
            f"there {BE[thing.agreement]} {thing.in_english()} {where.english}",
            f"{where.german} gibt es {thing.in_german('accusative')}",
            thing.combinations | {(thing.noun.english, place.noun.english)},
        )

    forms = [*COUNTS, (A, False), (NO, True)]
    return _frame(
        (
            Cell(build=partial(build, PLACES[place]), slots=(phrases(nouns_of(things), forms, described=True),))
            for place, things in SIGHTS
        ),
        "there is, es gibt",
    )


def not_the() -> Frame:
    """The farmers do not sell the brown horse. → Die Bauern verkaufen das braune Pferd nicht."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return time_first(Clause(subject=subject, verb=verb, direct=direct, time=time, negated=True))

    def without_time(verb: Verb, subject: Nominal, direct: NounPhrase) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="perfect", direct=direct, negated=True))

    def way(verb: Verb, subject: Nominal, place: Adverbial, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense="past", place=place, time=time, negated=True))

    return _frame(
        [
            *_with_objects(build, PLANNED, "definite", PRESENT_TIMES),
            *_with_objects(without_time, ALL_TRANSITIVE, "definite"),
            *(
                Cell(
                    build=partial(way, verb),
                    slots=(PLAIN_SUBJECTS, [to(place) for place in verb.places], PAST_TIMES),
                )
                for verb in MOTIONS.values()
            ),
        ],
        "negation with nicht",
    )


def no_things() -> Frame:
    """My sister drinks no cold milk in the morning. → Meine Schwester trinkt am Morgen keine kalte Milch."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, direct=direct, time=time))

    verbs = _pick(TRANSITIVE, "buy sell eat cook bake drink order read write draw see")
    times = [time for time in PRESENT_TIMES if not time.english.startswith("every")]
    return _frame(_with_objects(build, verbs, "none", times), "negation with kein")


def own_things() -> Frame:
    """The farmer repairs his old tractor in winter. → Der Bauer repariert im Winter seinen alten Traktor."""

    def build(tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense=tense, direct=direct, time=time))

    people = [*phrases(PEOPLE, THE_ONE_OR_MORE, described=False), *phrases(FAMILY, OWN, described=False)]
    owners: list[tuple[Determiner, list[Nominal]]] = [
        (HIS, [HE, *(one for one in people if not one.plural and one.noun.gender == "masculine")]),
        (HER, [SHE, *(one for one in people if not one.plural and one.noun.gender == "feminine")]),
        (THEIR, [THEY, *(one for one in people if one.plural)]),
        (MY, [I]),
        (OUR, [WE]),
    ]
    verbs = _pick(TRANSITIVE, "sell repair wash wear carry visit feed")
    verbs += [TRANSITIVE["look for"], *(SEPARABLE[name] for name in ("put on", "take off", "call", "invite"))]
    strangers = nouns_of("customer tourist lady journalist dancer")
    owned = {verb.name: [noun for noun in verb.objects if noun not in strangers] for verb in verbs}
    return _frame(
        (
            Cell(
                build=partial(build, tense, verb),
                slots=(subjects, phrases(owned[verb.name], [(determiner, False)], described=True), times),
            )
            for verb in verbs
            for determiner, subjects in owners
            for tense, times in TIMES_OF
        ),
        "possessive pronoun",
    )


def genitive() -> Frame:
    """Anna repairs the teacher's old car. → Anna repariert das alte Auto des Lehrers."""

    def build(
        tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, owner: NounPhrase, time: Adverbial
    ) -> Sentence:
        owned = replace(direct, owner=owner)
        return statement(Clause(subject=subject, verb=verb, tense=tense, direct=owned, time=time))

    subjects = [*phrases(FAMILY, OWN, described=False), *NAMES, *PRONOUNS]
    owners = phrases([*PEOPLE, *ACQUAINTANCES], THE_ONE, described=False)
    verbs = [*_pick(TRANSITIVE, "find repair wash carry feed read"), TRANSITIVE["look for"]]
    return _frame(
        (
            Cell(
                build=partial(build, tense, verb),
                slots=(subjects, phrases(verb.objects, THE_ONE, described=described), owners, times),
            )
            for verb in verbs
            for tense, times in TIMES_OF[:2]
            for described in (False, True)
        ),
        "genitive",
    )


def often() -> Frame:
    """The musician always wears an elegant hat. → Der Musiker trägt immer einen eleganten Hut."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, adverb: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, direct=direct, adverb=adverb))

    verbs = [verb for verb in ABOUT_THINGS if verb.name not in ("lose", "find", "build", "give back")]
    return _frame(_with_objects(build, verbs, "natural", FREQUENCIES), "frequency")


def manner() -> Frame:
    """The nurse closes the white door quietly. → Die Krankenschwester macht die weiße Tür leise zu."""

    def build(tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, manner: Adverbial) -> Sentence:
        return statement(Clause(subject=subject, verb=verb, tense=tense, direct=direct, manner=manner))

    verbs = [*_pick(TRANSITIVE, "repair wash carry draw"), *_pick(SEPARABLE, "open close pack")]
    return _frame(
        [
            *_with_objects(partial(build, "present"), verbs, "definite", MANNERS),
            *_with_objects(partial(build, "perfect"), verbs, "definite", MANNERS),
        ],
        "manner",
    )


LIKES = Modal(singular="likes to", plural="like to", german_singular="", german_plural="")
GLADLY = Adverbial(english="", german="gern")


def likes_to() -> Frame:
    """The children like to eat sweet cherries in the garden. → Die Kinder essen gern süße Kirschen im Garten."""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, place: Adverbial) -> Sentence:
        clause = Clause(subject=subject, verb=verb, direct=direct, place=place)
        return sentence(
            english_statement(replace(clause, tense="modal", modal=LIKES)),
            german_statement(replace(clause, adverb=GLADLY)),
            clause.combinations,
        )

    return _frame(
        (
            cell
            for verb in _pick(TRANSITIVE, "eat drink read write draw bake cook photograph watch feed order")
            for cell in _with_objects(build, [verb], "bare", _where(verb))
        ),
        "like to, gern",
    )


def two_people() -> Frame:
    """My brother and the tourist read a newspaper. → Mein Bruder und der Tourist lesen eine Zeitung."""

    def build(verb: Verb, first: NounPhrase, second: NounPhrase, direct: NounPhrase, time: Adverbial) -> Sentence:
        subject = Coordination(first=first, second=second)
        return statement(Clause(subject=subject, verb=verb, direct=direct, time=time))

    family = phrases(FAMILY, OWN, described=False)
    friends = phrases(ACQUAINTANCES, THE_ONE, described=False)
    return _frame(
        (
            Cell(
                build=partial(build, verb),
                slots=(family, friends, objects(verb, "natural", described=False), PRESENT_TIMES),
            )
            for verb in INTENDED
        ),
        "two subjects",
    )


def passive() -> Frame:
    """The old truck was repaired by the mechanic yesterday.

    → Der alte Lastwagen wurde gestern vom Mechaniker repariert.
    """

    def build(verb: Verb, thing: NounPhrase, agent: NounPhrase | None, time: Adverbial) -> Sentence:
        combinations = thing.combinations | {(verb.name, thing.noun.english)}
        english_agent = german_agent = ""
        if agent:
            phrase = prepositional("by", "von", "dative", agent)
            english_agent, german_agent = phrase.english + " ", phrase.german + " "
            combinations |= {(agent.noun.english, verb.name)}
        participle = f"{verb.past_participle} {verb.particle}".strip()
        was, wurde = ("were", "wurden") if thing.plural else ("was", "wurde")
        return sentence(
            f"{thing.in_english()} {was} {participle} {english_agent}{time.english}",
            f"{thing.in_german('nominative')} {wurde} {time.german} {german_agent}{verb.prefix}{verb.participle}",
            combinations,
        )

    verbs = _pick(TRANSITIVE, "sell draw photograph find repair wash build bake write")
    verbs += [SEPARABLE[name] for name in ("open", "close", "turn off", "clean up", "throw away")]
    agents = phrases(PEOPLE, THE_ONE_OR_MORE, described=False)
    return _frame(
        [
            *(
                Cell(
                    build=partial(build, verb),
                    slots=(objects(verb, "definite", described=False), agents, PAST_TIMES),
                )
                for verb in verbs
            ),
            *(
                Cell(
                    build=partial(build, verb),
                    slots=(objects(verb, "definite", described=True), (None,), PAST_TIMES),
                )
                for verb in verbs
            ),
        ],
        "passive",
    )


POLITE_YOU = Pronoun(
    english="you",
    english_object="you",
    nominative="Sie",
    accusative="Sie",
    dative="Ihnen",
    agreement="plural",
)


def imperative() -> Frame:
    """Please close the big window! → Bitte machen Sie das große Fenster zu!"""

    def build(verb: Verb, direct: NounPhrase, time: Adverbial | None) -> Sentence:
        clause = Clause(subject=POLITE_YOU, verb=verb, direct=direct, time=time)
        return sentence(
            "please" + english_infinitive(clause).removeprefix("to"),
            f"bitte {german_verb_first(clause)}",
            clause.combinations,
            end="!",
        )

    verbs = [verb for verb in INTENDED if verb.name not in ("build", "watch")]
    times = [time for time in (*PRESENT_TIMES, *FUTURE_TIMES) if time.english in REQUEST_TIMES]
    return _frame(
        (
            Cell(build=partial(build, verb), slots=(objects(verb, kind, described=True), times))
            for verb in verbs
            for kind in ("definite", "counted")
            if kind == "definite" or verb.name in ("buy", "bake", "cook", "order", "wash", "draw")
        ),
        "request",
    )


REQUEST_TIMES = frozenset(["today", "tomorrow", "in the evening", "next week"])

# ---------------------------------------------------------------- questions


def yes_or_no() -> Frame:
    """Does the cook bake a delicious cake today? → Backt der Koch heute einen leckeren Kuchen?"""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase, time: Adverbial) -> Sentence:
        return question(Clause(subject=subject, verb=verb, direct=direct, time=time))

    return _frame(
        _with_objects(build, PLANNED, "natural", PRESENT_TIMES, plain_subjects=ASKED_ABOUT),
        "yes-no question",
    )


def already() -> Frame:
    """Have the engineers already packed the white vase? → Haben die Ingenieure die weiße Vase schon eingepackt?"""

    def build(verb: Verb, subject: Nominal, direct: NounPhrase) -> Sentence:
        adverb = PERFECT_ADVERBS[0]
        return question(Clause(subject=subject, verb=verb, tense="perfect", direct=direct, adverb=adverb))

    return _frame(
        _with_objects(build, ALL_TRANSITIVE, "definite", plain_subjects=ASKED_ABOUT), "question in the perfect"
    )


def where_when_why() -> Frame:
    """Why does the doctor sell the small boat? → Warum verkauft der Arzt das kleine Boot?"""

    def build(tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase, words: tuple[str, str]) -> Sentence:
        return question(Clause(subject=subject, verb=verb, tense=tense, direct=direct), *words)

    where, when, why = ("where", "wo"), ("when", "wann"), ("why", "warum")
    asked: tuple[tuple[Tense, list[Verb], tuple[tuple[str, str], ...]], ...] = (
        ("present", WITH_PLACES, (where, when, why)),
        ("perfect", list(SEPARABLE.values()), (why,)),
        ("past", ABOUT_THINGS, (when, why)),
    )
    return _frame(
        (
            cell
            for tense, verbs, words in asked
            for cell in _with_objects(partial(build, tense), verbs, "definite", words, plain_subjects=ASKED_ABOUT)
        ),
        "where, when, why",
    )


def what() -> Frame:
    """What does the old woman buy at the market? → Was kauft die alte Frau auf dem Markt?"""

    def build(tense: Tense, verb: Verb, subject: Nominal, place: Adverbial, time: Adverbial) -> Sentence:
        clause = Clause(subject=subject, verb=verb, tense=tense, place=place, time=time)
        return question(clause, "what", "was")

    return _frame(
        (
            Cell(build=partial(build, tense, verb), slots=(DESCRIBED_SUBJECTS, _where(verb), times))
            for verb in WITH_PLACES
            if verb not in ABOUT_PEOPLE
            for tense, times in TIMES_OF[:2]
        ),
        "what",
    )


def how_many() -> Frame:
    """How many red apples does the baker buy today? → Wie viele rote Äpfel kauft der Bäcker heute?"""

    def build(verb: Verb, direct: NounPhrase, subject: Nominal, time: Adverbial) -> Sentence:
        asked = question(
            Clause(subject=subject, verb=verb, time=time), direct.in_english(), direct.in_german("accusative")
        )
        about = Clause(subject=subject, verb=verb, direct=direct).combinations
        return replace(asked, combinations=about)

    return _frame(
        (
            Cell(
                build=partial(build, verb),
                slots=(
                    phrases(verb.objects, [(HOW_MANY, True)], described=True),
                    ASKED_ABOUT,
                    PRESENT_TIMES,
                ),
            )
            for verb in COUNTABLE_DEEDS
        ),
        "how many",
    )


def who() -> Frame:
    """Who opened the heavy gate yesterday? → Wer machte gestern das schwere Tor auf?

    Who does the lawyer help today? → Wem hilft der Anwalt heute?
    """

    def subject(verb: Verb, direct: NounPhrase, time: Adverbial) -> Sentence:
        clause = Clause(subject=WHO, verb=verb, tense="past", direct=direct, time=time)
        return replace_end(statement(clause))

    def person(verb: Verb, subject: Nominal, time: Adverbial) -> Sentence:
        return question(Clause(subject=subject, verb=verb, time=time), "who", WHO.in_german(verb.case))

    verbs_of_people = [*(verb for verb in ABOUT_PEOPLE), *WITH_DATIVE.values()]
    return _frame(
        [
            *(
                Cell(
                    build=partial(subject, verb),
                    slots=(objects(verb, "definite", described=True), PAST_TIMES),
                )
                for verb in ALL_TRANSITIVE
            ),
            *(Cell(build=partial(person, verb), slots=(DESCRIBED_SUBJECTS, PRESENT_TIMES)) for verb in verbs_of_people),
        ],
        "who, whom",
    )


def replace_end(stated: Sentence) -> Sentence:
    """A question about the subject is ordered like a statement; only its end differs."""
    return replace(stated, english=stated.english[:-1] + "?", german=stated.german[:-1] + "?")


# ---------------------------------------------------------------- two clauses


def because() -> Frame:
    """The nurse is happy because she has found the key. → Die Krankenschwester ist glücklich, weil sie …"""

    def build(verb: Verb, subject: NounPhrase, mood: Adverbial, direct: NounPhrase) -> Sentence:
        reason = Clause(subject=subject.pronoun, verb=verb, tense="perfect", direct=direct)
        return sentence(
            f"{_is(subject)[0]} {mood.english} because {english_statement(reason)}",
            f"{_is(subject)[1]} {mood.german}, weil {german_verb_last(reason)}",
            reason.combinations | subject.combinations | {(subject.noun.english, verb.name)},
        )

    aimless = ("look for", "lose", "see")
    deeds = [verb for verb in ALL_TRANSITIVE if verb.name not in aimless]
    return _frame(
        (
            Cell(build=partial(build, verb), slots=(OF_NATURAL_GENDER, MOODS, objects(verb, kind, described=False)))
            for verb in deeds
            for kind in ("definite", "counted")
            if kind == "definite" or verb in COUNTABLE_DEEDS
        ),
        "because, weil",
    )


def _is(subject: Nominal) -> tuple[str, str]:
    """the man is, der Mann ist"""
    agreement: Agreement = subject.agreement
    return (
        f"{subject.in_english()} {BE[agreement]}",
        f"{subject.in_german('nominative')} {SEIN[agreement]}",
    )


OF_NATURAL_GENDER = [
    phrase
    for phrase in [
        *phrases(PEOPLE, THE_ONE_OR_MORE, described=False),
        *phrases(FAMILY, OWN, described=False),
    ]
    if phrase.plural or phrase.noun.gender != "neuter"
]


def that() -> Frame:
    """My sister believes that the doctor sells the boat. → Meine Schwester glaubt, dass der Arzt das Boot verkauft."""

    def build(
        thought: Verb, tense: Tense, verb: Verb, subject: Nominal, other: NounPhrase, direct: NounPhrase
    ) -> Sentence:
        outer = Clause(subject=subject, verb=thought)
        inner = Clause(subject=other, verb=verb, tense=tense, direct=direct)
        return sentence(
            f"{english_statement(outer)} that {english_statement(inner)}",
            f"{german_statement(outer)}, dass {german_verb_last(inner)}",
            outer.combinations | inner.combinations,
        )

    thinkers = [*phrases(PEOPLE, THE_ONE_OR_MORE, described=False), *phrases(FAMILY, OWN, described=False), *NAMES]
    tenses: dict[str, tuple[Tense, ...]] = {"hope": ("future",)}
    return _frame(
        (
            Cell(
                build=partial(build, thought, tense, verb),
                slots=(thinkers, OTHERS, objects(verb, "definite", described=False)),
            )
            for thought in THOUGHTS.values()
            for tense in tenses.get(thought.name, ("present", "perfect"))
            for verb in ABOUT_THINGS
        ),
        "that, dass",
    )


def when_weather() -> Frame:
    """When it rains, the boys play cards in the kitchen. → Wenn es regnet, spielen die Jungen in der Küche Karten."""

    def build(verb: Verb, weather: Adverbial, subject: Nominal, place: Adverbial) -> Sentence:
        main = Clause(subject=subject, verb=verb, place=place)
        return sentence(
            f"when {weather.english}, {english_statement(main)}",
            f"wenn {weather.german}, {german_verb_first(main)}",
            main.combinations,
        )

    return _frame(
        [
            *(
                Cell(build=partial(build, verb), slots=(WEATHER, subjects, _where(verb)))
                for verb in ACTIVITIES.values()
                for subjects in (PLAIN_SUBJECTS, DESCRIBED_SUBJECTS)
            ),
            *(
                Cell(
                    build=partial(build, verb),
                    slots=(WEATHER, PLAIN_SUBJECTS, [to(place) for place in verb.places]),
                )
                for verb in MOTIONS.values()
            ),
        ],
        "when, wenn",
    )


def while_clause() -> Frame:
    """While my aunt bakes a cake, the boy opens the door. → Während meine Tante einen Kuchen backt, macht …"""

    def build(
        first: Verb, second: Verb, one: NounPhrase, thing: NounPhrase, other: NounPhrase, what: NounPhrase
    ) -> Sentence:
        meanwhile = Clause(subject=one, verb=first, direct=thing)
        main = Clause(subject=other, verb=second, direct=what)
        return sentence(
            f"while {english_statement(meanwhile)}, {english_statement(main)}",
            f"während {german_verb_last(meanwhile)}, {german_verb_first(main)}",
            meanwhile.combinations | main.combinations,
        )

    return _frame(
        (
            Cell(
                build=partial(build, first, second),
                slots=(
                    phrases(FAMILY, OWN, described=False),
                    objects(first, "definite", described=False),
                    OTHERS,
                    objects(second, "natural", described=False),
                ),
            )
            for first in LASTING
            for second in LASTING
            if first is not second
        ),
        "while, während",
    )


LASTING = _pick(TRANSITIVE, "draw eat cook bake drink read write repair wash carry feed watch")
LASTING += [SEPARABLE[name] for name in ("clean up", "pack", "turn on", "throw away")]


def and_but() -> Frame:
    """My son reads a book, but the doctor writes a letter. → Mein Sohn liest ein Buch, aber der Arzt …"""

    def build(
        first: Verb,
        second: Verb,
        one: NounPhrase,
        thing: NounPhrase,
        other: NounPhrase,
        what: NounPhrase,
        link: tuple[str, str],
    ) -> Sentence:
        left = Clause(subject=one, verb=first, direct=thing)
        right = Clause(subject=other, verb=second, direct=what)
        return sentence(
            f"{english_statement(left)}{link[0]} {english_statement(right)}",
            f"{german_statement(left)}{link[1]} {german_statement(right)}",
            left.combinations | right.combinations,
        )

    links = ((" and", " und"), (", but", ", aber"))
    return _frame(
        (
            Cell(
                build=partial(build, first, second),
                slots=(
                    [*phrases(FAMILY, OWN, described=False), *NAMES],
                    objects(first, "natural", described=False),
                    OTHERS,
                    objects(second, "natural", described=False),
                    links,
                ),
            )
            for first in LASTING
            for second in LASTING
            if first is not second
        ),
        "and, but",
    )


def try_to() -> Frame:
    """The child tries to open the heavy box. → Das Kind versucht, die schwere Kiste aufzumachen."""

    def build(attempt: Verb, tense: Tense, verb: Verb, subject: Nominal, direct: NounPhrase) -> Sentence:
        outer = Clause(subject=subject, verb=attempt, tense=tense)
        inner = Clause(subject=subject, verb=verb, direct=direct)
        return sentence(
            f"{english_statement(outer)} {english_infinitive(inner)}",
            f"{german_statement(outer)}, {german_infinitive(inner)}",
            outer.combinations | inner.combinations,
        )

    verbs = [verb for verb in INTENDED if verb.name not in ("look for", "watch")]
    return _frame(
        (
            cell
            for attempt in ATTEMPTS.values()
            for tense in ("present", "past")
            for cell in _with_objects(partial(build, attempt, tense), verbs, "definite")
        ),
        "infinitive with zu",
    )


def in_order_to() -> Frame:
    """The cook drives to the market to buy fresh eggs. → Der Koch fährt zum Markt, um frische Eier zu kaufen."""

    def build(motion: Verb, place: Place, verb: Verb, subject: Nominal, direct: NounPhrase) -> Sentence:
        outer = Clause(subject=subject, verb=motion, place=to(place))
        inner = Clause(subject=subject, verb=verb, direct=direct)
        return sentence(
            f"{english_statement(outer)} {english_infinitive(inner)}",
            f"{german_statement(outer)}, um {german_infinitive(inner)}",
            outer.combinations | inner.combinations,
        )

    purposes = _pick(TRANSITIVE, "buy sell draw photograph eat drink order read write repair meet feed watch")
    return _frame(
        (
            cell
            for motion in MOTIONS.values()
            for verb in purposes
            for place in verb.places
            if place in motion.places
            for cell in _with_objects(partial(build, motion, place), [verb], "natural")
        ),
        "in order to, um zu",
    )


def _relative_pronoun(phrase: NounPhrase, case: Literal["nominative", "accusative"]) -> str:
    """In these two cases the relative pronoun equals the article."""
    return DEFINITE_ARTICLE[case, phrase.column]


def relative_subject() -> Frame:
    """The man who repairs the car is tall. → Der Mann, der das Auto repariert, ist groß."""

    def build(tense: Tense, noun: Noun, verb: Verb, plural: bool, direct: NounPhrase, adjective: Adjective) -> Sentence:
        subject = NounPhrase(determiner=THE, noun=noun, plural=plural)
        inner = Clause(subject=subject, verb=verb, tense=tense, direct=direct)
        does = english_statement(inner).removeprefix(subject.in_english())
        return sentence(
            f"{subject.in_english()} who{does} {BE[subject.agreement]} {adjective.english}",
            f"{subject.in_german('nominative')}, {_relative_pronoun(subject, 'nominative')} "
            f"{german_verb_last_without_subject(inner)}, {SEIN[subject.agreement]} {adjective.predicate}",
            inner.combinations | _adjective_and_noun(adjective, noun),
        )

    return _frame(
        (
            Cell(
                build=partial(build, tense, noun, verb),
                slots=((False, True), objects(verb, "definite", described=False), noun.adjectives),
            )
            for tense in ("present", "perfect")
            for noun in PEOPLE
            for verb in ABOUT_THINGS
        ),
        "relative clause about the subject",
    )


def _adjective_and_noun(adjective: Adjective, noun: Noun) -> frozenset[Combination]:
    return frozenset({(adjective.english, noun.english)})


def relative_object() -> Frame:
    """The book that the woman has bought is boring. → Das Buch, das die Frau gekauft hat, ist langweilig."""

    def build(tense: Tense, verb: Verb, noun: Noun, plural: bool, subject: Nominal, adjective: Adjective) -> Sentence:
        thing = NounPhrase(determiner=THE, noun=noun, plural=plural)
        inner = Clause(subject=subject, verb=verb, tense=tense)
        return sentence(
            f"{thing.in_english()} that {english_statement(inner)} {BE[thing.agreement]} {adjective.english}",
            f"{thing.in_german('nominative')}, {_relative_pronoun(thing, 'accusative')} "
            f"{german_verb_last(inner)}, {SEIN[thing.agreement]} {adjective.predicate}",
            inner.combinations | _adjective_and_noun(adjective, noun) | {(verb.name, noun.english)},
        )

    verbs = [verb for verb in TRANSITIVE.values() if verb not in ABOUT_PEOPLE]
    return _frame(
        (
            Cell(
                build=partial(build, tense, verb, noun),
                slots=((False, True) if noun.countable else (False,), PLAIN_SUBJECTS, noun.adjectives),
            )
            for tense in ("present", "perfect")
            for verb in verbs
            for noun in verb.objects
        ),
        "relative clause about the object",
    )


# ---------------------------------------------------------------- to be


def comparison() -> Frame:
    """My car is faster than the red bus. → Mein Auto ist schneller als der rote Bus."""

    def build(one: NounPhrase, adjective: Adjective, other: NounPhrase) -> Sentence:
        english, german = _is(one)
        return sentence(
            f"{english} {adjective.english_comparative} than {other.in_english()}",
            f"{german} {adjective.comparative} als {other.in_german('nominative')}",
            one.combinations | other.combinations | _adjective_and_noun(adjective, one.noun),
        )

    cells = []
    for category in ("vehicle", "clothes", "device", "furniture"):
        nouns = nouns_of(f"@{category}")
        adjectives = [adjective for adjective in nouns[0].adjectives if adjective.english not in COLOURS]
        coloured = [
            phrase
            for phrase in phrases(nouns, THE_ONE_OR_MORE, described=True)
            if phrase.adjective and phrase.adjective.english in COLOURS
        ]
        mine = phrases(nouns, [(MY, False), (OUR, False), (THIS, False), (THIS, True)], described=False)
        cells.append(Cell(build=build, slots=(mine, adjectives, coloured)))
    people = phrases(PEOPLE, [(THE, False), (THIS, False)], described=False)
    shared = [ADJECTIVES[word] for word in ("old", "young", "tall", "strong", "clever", "funny", "rich", "polite")]
    cells.append(Cell(build=build, slots=(phrases(FAMILY, OWN, described=False), shared, people)))
    return _frame(cells, "comparison")


def very() -> Frame:
    """These novels are too long. → Diese Romane sind zu lang."""

    def build(noun: Noun, form: Form, degree: Adverbial, adjective: Adjective) -> Sentence:
        determiner, plural = form
        english, german = _is(NounPhrase(determiner=determiner, noun=noun, plural=plural))
        return sentence(
            f"{english} {degree.english} {adjective.english}",
            f"{german} {degree.german} {adjective.predicate}",
            _adjective_and_noun(adjective, noun),
        )

    nouns = nouns_of("@text @fruit @food @staple @vehicle @clothes @room @device @beast @furniture @container")
    forms: tuple[Form, ...] = ((THE, False), (THIS, False), (THE, True), (THIS, True))
    return _frame(
        (
            Cell(
                build=partial(build, noun),
                slots=(
                    forms if noun.countable else forms[:2],
                    DEGREES,
                    [adjective for adjective in noun.adjectives if adjective.english not in COLOURS],
                ),
            )
            for noun in nouns
        ),
        "to be very so",
    )


def whose_is_how() -> Frame:
    """The farmer's tractor is old and red. → Der Traktor des Bauern ist alt und rot."""

    def build(owned: Noun, owner: NounPhrase, adjective: Adjective, colour: Adjective) -> Sentence:
        english, german = _is(NounPhrase(determiner=THE, noun=owned, owner=owner))
        return sentence(
            f"{english} {adjective.english} and {colour.english}",
            f"{german} {adjective.predicate} und {colour.predicate}",
            owner.combinations
            | _adjective_and_noun(adjective, owned)
            | _adjective_and_noun(colour, owned)
            | {(owner.noun.english, owned.english)},
        )

    owners = phrases([*PEOPLE, *ACQUAINTANCES], [(THE, False), (THIS, False)], described=False)
    return _frame(
        (
            Cell(
                build=partial(build, owned),
                slots=(
                    owners,
                    [adjective for adjective in owned.adjectives if adjective.english not in COLOURS],
                    [adjective for adjective in owned.adjectives if adjective.english in COLOURS],
                ),
            )
            for owned in nouns_of("@clothes @vehicle @furniture dog cat horse bag suitcase lamp camera")
        ),
        "whose it is and how it is",
    )


@cache
def frames() -> tuple[Frame, ...]:
    """All frames; made when first asked for, because their lists are long."""
    makers = (
        something_today,
        counted_there,
        everything_at_once,
        time_in_front,
        past,
        past_time_in_front,
        perfect,
        future,
        modal,
        ditransitive,
        with_pronoun,
        dative_verb,
        direction,
        journey,
        activity,
        routine,
        two_way,
        position,
        there_is,
        not_the,
        no_things,
        own_things,
        genitive,
        often,
        manner,
        likes_to,
        two_people,
        passive,
        imperative,
        yes_or_no,
        already,
        where_when_why,
        what,
        how_many,
        who,
        because,
        that,
        when_weather,
        while_clause,
        and_but,
        try_to,
        in_order_to,
        relative_subject,
        relative_object,
        comparison,
        very,
        whose_is_how,
    )
    return tuple(make() for make in makers)
