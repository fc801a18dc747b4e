"""Two grammars in step: one structure, said in English and in German.

A noun phrase agrees in gender, case and number (`NounPhrase`); a clause puts its parts in order (`Clause`). German
order follows the fields of the sentence, with the verb's two halves as a bracket around the middle:

    prefield | finite verb | middle field                          | right bracket
    Heute    | macht       | der Mann das Fenster                  | auf
    Der Bauer| hat         | gestern drei rote Äpfel auf dem Markt | gekauft
    (weil)   |             | der Bauer das Fenster                 | aufmacht

Middle field: subject (when not in front), pronouns, time, adverb, dative, accusative, "nicht", manner, place.
English: subject, verb, indirect object, object, manner, place, time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from attendo.sample.lexicon import (
    Adjective,
    Adverbial,
    Case,
    Modal,
    Noun,
    Place,
    Verb,
)

Column = Literal["masculine", "feminine", "neuter", "plural"]
Declension = Literal["weak", "mixed", "strong"]
Agreement = Literal["first", "third", "plural"]
Tense = Literal["present", "past", "perfect", "future", "modal"]
Combination = tuple[str, str]

_COLUMNS: tuple[Column, ...] = ("masculine", "feminine", "neuter", "plural")


def _endings(rows: Mapping[Case, str]) -> dict[tuple[Case, Column], str]:
    """A table of endings, `-` for none: case → masculine, feminine, neuter, plural."""
    return {
        (case, column): ending.removeprefix("-")
        for case, row in rows.items()
        for column, ending in zip(_COLUMNS, row.split(), strict=True)
    }


DEFINITE_ARTICLE = _endings(
    {
        "nominative": "der die das die",
        "accusative": "den die das die",
        "dative": "dem der dem den",
        "genitive": "des der des der",
    }
)

# dieser, jeder, viele
STRONG_DETERMINER = _endings(
    {
        "nominative": "-er -e -es -e",
        "accusative": "-en -e -es -e",
        "dative": "-em -er -em -en",
        "genitive": "-es -er -es -er",
    }
)

# ein, kein, mein
MIXED_DETERMINER = _endings(
    {
        "nominative": "- -e - -e",
        "accusative": "-en -e - -e",
        "dative": "-em -er -em -en",
        "genitive": "-es -er -es -er",
    }
)

ADJECTIVE_ENDINGS: Mapping[Declension, Mapping[tuple[Case, Column], str]] = {
    # after der, dieser, jeder
    "weak": _endings(
        {
            "nominative": "-e -e -e -en",
            "accusative": "-en -e -e -en",
            "dative": "-en -en -en -en",
            "genitive": "-en -en -en -en",
        }
    ),
    # after ein, kein, mein
    "mixed": _endings(
        {
            "nominative": "-er -e -es -en",
            "accusative": "-en -e -es -en",
            "dative": "-en -en -en -en",
            "genitive": "-en -en -en -en",
        }
    ),
    # after nothing, a number, viele, einige
    "strong": _endings(
        {
            "nominative": "-er -e -es -e",
            "accusative": "-en -e -es -e",
            "dative": "-em -er -em -en",
            "genitive": "-en -er -en -er",
        }
    ),
}

CONTRACTIONS: Mapping[tuple[str, str], str] = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


@dataclass(frozen=True, kw_only=True)
class Determiner:
    """What stands before a noun and decides the endings of the adjective between them.

    `stem` takes the endings of `endings`; a determiner without endings (zwei) has `None` and stays as it is.
    """

    singular: str
    plural: str
    stem: str
    endings: Mapping[tuple[Case, Column], str] | None
    declension: Declension

    def german(self, case: Case, column: Column) -> str:
        return self.stem if self.endings is None else self.stem + self.endings[case, column]


def _mixed(english: str, stem: str) -> Determiner:
    return Determiner(singular=english, plural=english, stem=stem, endings=MIXED_DETERMINER, declension="mixed")


THE = Determiner(singular="the", plural="the", stem="", endings=DEFINITE_ARTICLE, declension="weak")
THIS = Determiner(singular="this", plural="these", stem="dies", endings=STRONG_DETERMINER, declension="weak")
EVERY = Determiner(singular="every", plural="", stem="jed", endings=STRONG_DETERMINER, declension="weak")
MANY = Determiner(singular="", plural="many", stem="viel", endings=STRONG_DETERMINER, declension="strong")
SOME = Determiner(singular="", plural="some", stem="einig", endings=STRONG_DETERMINER, declension="strong")
A = Determiner(singular="a", plural="", stem="ein", endings=MIXED_DETERMINER, declension="mixed")
NO, MY, OUR = _mixed("no", "kein"), _mixed("my", "mein"), _mixed("our", "unser")
HIS, HER, THEIR = _mixed("his", "sein"), _mixed("her", "ihr"), _mixed("their", "ihr")
NONE = Determiner(singular="", plural="", stem="", endings=None, declension="strong")
HOW_MANY = Determiner(singular="", plural="how many", stem="wie viel", endings=STRONG_DETERMINER, declension="strong")


def number(english: str, german: str) -> Determiner:
    """zwei rote Äpfel: a number does not change, and the adjective after it has the strong endings."""
    return Determiner(singular="", plural=english, stem=german, endings=None, declension="strong")


def _joined(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True)
class Pronoun:
    english: str
    english_object: str
    nominative: str
    accusative: str
    dative: str
    agreement: Agreement

    @property
    def combinations(self) -> frozenset[Combination]:
        return frozenset()

    @property
    def head(self) -> str | None:
        return None

    def in_english(self, *, is_object: bool = False) -> str:
        return self.english_object if is_object else self.english

    def in_german(self, case: Case) -> str:
        return {"nominative": self.nominative, "accusative": self.accusative, "dative": self.dative}[case]


def _pronoun(english: str, german: str, agreement: Agreement) -> Pronoun:
    subject, english_object = english.split()
    nominative, accusative, dative = german.split()
    return Pronoun(
        english=subject,
        english_object=english_object,
        nominative=nominative,
        accusative=accusative,
        dative=dative,
        agreement=agreement,
    )


I = _pronoun("I me", "ich mich mir", "first")  # noqa: E741 (the word's own name)
HE = _pronoun("he him", "er ihn ihm", "third")
SHE = _pronoun("she her", "sie sie ihr", "third")
WE = _pronoun("we us", "wir uns uns", "plural")
THEY = _pronoun("they them", "sie sie ihnen", "plural")
WHO = _pronoun("who who", "wer wen wem", "third")


@dataclass(frozen=True, kw_only=True)
class NounPhrase:
    """determiner + adjective + noun, or with an owner: the farmer's old car, das alte Auto des Bauern."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    adjective: Adjective | None = None
    owner: "NounPhrase | None" = None

    @property
    def agreement(self) -> Agreement:
        return "plural" if self.plural else "third"

    @property
    def column(self) -> Column:
        return "plural" if self.plural else self.noun.gender

    @property
    def head(self) -> str | None:
        return self.noun.english

    @property
    def combinations(self) -> frozenset[Combination]:
        own = frozenset({(self.adjective.english, self.noun.english)} if self.adjective else ())
        return own | self.owner.combinations if self.owner else own

    @property
    def definite(self) -> bool:
        return self.determiner in (THE, THIS, MY, OUR, HIS, HER, THEIR)

    @property
    def pronoun(self) -> Pronoun:
        """The pronoun that takes the phrase up again. The noun is of natural gender: he or she."""
        if self.plural:
            return THEY
        return SHE if self.noun.gender == "feminine" else HE

    def in_english(self, *, is_object: bool = False) -> str:  # noqa: ARG002 (only pronouns change)
        determiner = self.determiner.plural if self.plural else self.determiner.singular
        if self.owner:
            determiner = self.owner.in_english() + "'s"
        noun = self.noun.english_plural if self.plural else self.noun.english
        rest = _joined([self.adjective.english if self.adjective else "", noun])
        # "a university" begins with the sound of "you"; every other word here with a vowel letter begins with a vowel.
        if determiner == "a" and rest[0] in "aeiou" and not rest.startswith("uni"):
            determiner = "an"
        return _joined([determiner, rest])

    def in_german(self, case: Case) -> str:
        adjective = ""
        if self.adjective:
            ending = ADJECTIVE_ENDINGS[self.determiner.declension][case, self.column]
            adjective = self.adjective.stem + ending
        return _joined(
            [
                self.determiner.german(case, self.column),
                adjective,
                self.noun.decline(case, plural=self.plural),
                self.owner.in_german("genitive") if self.owner else "",
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Coordination:
    """my mother and my brother"""

    first: NounPhrase
    second: NounPhrase
    agreement: Agreement = "plural"

    @property
    def head(self) -> str | None:
        return self.first.head

    @property
    def combinations(self) -> frozenset[Combination]:
        return self.first.combinations | self.second.combinations

    def in_english(self, *, is_object: bool = False) -> str:  # noqa: ARG002 (only pronouns change)
        return f"{self.first.in_english()} and {self.second.in_english()}"

    def in_german(self, case: Case) -> str:
        return f"{self.first.in_german(case)} und {self.second.in_german(case)}"


Nominal = NounPhrase | Pronoun | Coordination


def prepositional(english: str, german: str, case: Case, phrase: Nominal) -> Adverbial:
    """A preposition and its noun phrase; in dem → im, zu der → zur."""
    german_words = phrase.in_german(case).split()
    contracted = CONTRACTIONS.get((german, german_words[0]))
    german_words = [contracted, *german_words[1:]] if contracted else [german, *german_words]
    return Adverbial(
        english=f"{english} {phrase.in_english(is_object=True)}",
        german=" ".join(german_words),
        combinations=phrase.combinations,
    )


def at(place: Place, adjective: Adjective | None = None) -> Adverbial:
    """Where: at the market, auf dem Markt (always the dative)."""
    phrase = NounPhrase(determiner=THE, noun=place.noun, adjective=adjective)
    return prepositional(place.english_at, place.german_at, "dative", phrase)


def to(place: Place, adjective: Adjective | None = None) -> Adverbial:
    """Where to: to the park, in den Park (accusative); to the market, zum Markt (zu has the dative)."""
    phrase = NounPhrase(determiner=THE, noun=place.noun, adjective=adjective)
    case: Case = "dative" if place.german_to == "zu" else "accusative"
    return prepositional("to", place.german_to, case, phrase)


SEIN: Mapping[Agreement, str] = {"first": "bin", "third": "ist", "plural": "sind"}
HABEN: Mapping[Agreement, str] = {"first": "habe", "third": "hat", "plural": "haben"}
WERDEN: Mapping[Agreement, str] = {"first": "werde", "third": "wird", "plural": "werden"}
BE: Mapping[Agreement, str] = {"first": "am", "third": "is", "plural": "are"}


def stem(verb: Verb) -> str:
    """kaufen → kauf, füttern → fütter"""
    return verb.infinitive.removesuffix("n").removesuffix("e")


def present(verb: Verb, agreement: Agreement) -> str:
    forms = {"first": stem(verb) + "e", "third": verb.german_third, "plural": verb.infinitive}
    return forms[agreement]


def preterite(verb: Verb, agreement: Agreement) -> str:
    if agreement == "plural":
        return verb.preterite + ("n" if verb.preterite.endswith("e") else "en")
    return verb.preterite


def infinitive_with_zu(verb: Verb) -> str:
    """das Auto zu kaufen, das Fenster aufzumachen, Fußball zu spielen"""
    if verb.prefix:
        return f"{verb.prefix}zu{verb.infinitive}"
    return _joined([verb.complement, "zu", verb.infinitive])


@dataclass(frozen=True, kw_only=True)
class Clause:
    """The parts of a clause, in no order: the functions below order them.

    `direct` is the object in the verb's own case (accusative, or dative: jemandem helfen); `recipient` is the second,
    dative object of verbs such as give. `adverb` stands before the verb in English (often, already).
    """

    subject: Nominal
    verb: Verb
    tense: Tense = "present"
    modal: Modal | None = None
    recipient: Nominal | None = None
    direct: Nominal | None = None
    adverb: Adverbial | None = None
    time: Adverbial | None = None
    manner: Adverbial | None = None
    place: Adverbial | None = None
    negated: bool = False

    @property
    def combinations(self) -> frozenset[Combination]:
        """adjective and noun, subject and verb, verb and object: what a reader would call a combination of words."""
        parts = (self.subject, self.recipient, self.direct, self.place, self.time)
        found = frozenset[Combination]().union(*(part.combinations for part in parts if part))
        if self.subject.head:
            found |= {(self.subject.head, self.verb.name)}
        if self.direct and self.direct.head:
            found |= {(self.verb.name, self.direct.head)}
        return found


def _english_verb(clause: Clause, *, do_support: bool) -> tuple[str, str]:
    """(auxiliary or "", main verb with its particle)"""
    verb, agreement = clause.verb, clause.subject.agreement
    third = agreement == "third"
    auxiliary, main = "", verb.base
    match clause.tense:
        case "present" if do_support:
            auxiliary = "does" if third else "do"
        case "present":
            main = verb.third if third else verb.base
        case "past" if do_support:
            auxiliary = "did"
        case "past":
            main = verb.past
        case "perfect":
            auxiliary, main = ("has" if third else "have"), verb.past_participle
        case "future":
            auxiliary = "will"
        case "modal":
            modal = _modal(clause)
            auxiliary = modal.singular if third else modal.plural
    return auxiliary, _joined([main, verb.particle])


def _modal(clause: Clause) -> Modal:
    if clause.modal is None:
        raise ValueError(f"The clause with {clause.verb.name!r} has the tense 'modal' but no modal verb.")
    return clause.modal


def _english_rest(clause: Clause) -> list[str]:
    """What follows the English verb."""
    return [
        clause.recipient.in_english(is_object=True) if clause.recipient else "",
        clause.direct.in_english(is_object=True) if clause.direct else "",
        *(part.english for part in (clause.manner, clause.place, clause.time) if part),
    ]


def english_statement(clause: Clause) -> str:
    """the farmer does not buy the car today"""
    auxiliary, main = _english_verb(clause, do_support=clause.negated)
    adverb = clause.adverb.english if clause.adverb else ""
    negation = "not" if clause.negated else ""
    return _joined([clause.subject.in_english(), auxiliary, negation, adverb, main, *_english_rest(clause)])


def english_question(clause: Clause) -> str:
    """does the farmer buy the car today"""
    auxiliary, main = _english_verb(clause, do_support=True)
    adverb = clause.adverb.english if clause.adverb else ""
    return _joined([auxiliary, clause.subject.in_english(), adverb, main, *_english_rest(clause)])


def english_infinitive(clause: Clause) -> str:
    """to buy the car; the subject is that of the clause around it"""
    return _joined(["to", clause.verb.base, clause.verb.particle, *_english_rest(clause)])


def _german_verb(clause: Clause) -> tuple[str, str]:
    """(finite verb, what stands in the right bracket)"""
    verb, agreement = clause.verb, clause.subject.agreement
    match clause.tense:
        case "present":
            return present(verb, agreement), verb.complement or verb.prefix
        case "past":
            return preterite(verb, agreement), verb.complement or verb.prefix
        case "perfect":
            auxiliary = SEIN if verb.with_sein else HABEN
            return auxiliary[agreement], _joined([verb.complement, verb.prefix + verb.participle])
        case "future":
            finite = WERDEN[agreement]
        case "modal":
            modal = _modal(clause)
            finite = modal.german_plural if agreement == "plural" else modal.german_singular
    return finite, _joined([verb.complement, verb.prefix + verb.infinitive])


def german_middle(clause: Clause) -> list[str]:
    """The middle field without the subject.

    A definite object stands before the adverb, another after it: hat das Buch schon gelesen, liest oft ein Buch.
    """
    objects: list[tuple[Nominal, Case]] = []
    if clause.recipient:
        objects.append((clause.recipient, "dative"))
    if clause.direct:
        objects.append((clause.direct, clause.verb.case))
    pronouns = [part.in_german(case) for part, case in objects if isinstance(part, Pronoun)]
    phrases = [part.in_german(case) for part, case in objects if not isinstance(part, Pronoun)]
    adverb = [clause.adverb.german] if clause.adverb else []
    known = isinstance(clause.direct, NounPhrase) and clause.direct.definite
    return [
        *pronouns,
        clause.time.german if clause.time else "",
        *([*phrases, *adverb] if known else [*adverb, *phrases]),
        "nicht" if clause.negated else "",
        *(part.german for part in (clause.manner, clause.place) if part),
    ]


def german_statement(clause: Clause) -> str:
    """Der Bauer macht das Fenster auf."""
    finite, bracket = _german_verb(clause)
    return _joined([clause.subject.in_german("nominative"), finite, *german_middle(clause), bracket])


def german_verb_first(clause: Clause) -> str:
    """macht der Bauer das Fenster auf: a question, or what follows anything put in front."""
    finite, bracket = _german_verb(clause)
    return _joined([finite, clause.subject.in_german("nominative"), *german_middle(clause), bracket])


def german_verb_last(clause: Clause) -> str:
    """der Bauer das Fenster aufmacht: after weil, dass, wenn, während and relative pronouns."""
    return _joined([clause.subject.in_german("nominative"), german_verb_last_without_subject(clause)])


def german_verb_last_without_subject(clause: Clause) -> str:
    finite, bracket = _german_verb(clause)
    if clause.tense in ("present", "past") and clause.verb.prefix:
        return _joined([*german_middle(clause), bracket + finite])
    return _joined([*german_middle(clause), bracket, finite])


def german_infinitive(clause: Clause) -> str:
    """das Fenster aufzumachen; the subject is that of the clause around it"""
    return _joined([*german_middle(clause), infinitive_with_zu(clause.verb)])


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence in both languages, and the combinations of words in it."""

    english: str
    german: str
    combinations: frozenset[Combination]


def sentence(english: str, german: str, combinations: frozenset[Combination], *, end: str = ".") -> Sentence:
    """Capitalise and close what the clauses gave."""
    return Sentence(
        english=english[0].upper() + english[1:] + end,
        german=german[0].upper() + german[1:] + end,
        combinations=combinations,
    )


def statement(clause: Clause) -> Sentence:
    return sentence(english_statement(clause), german_statement(clause), clause.combinations)


def time_first(clause: Clause) -> Sentence:
    """Today, the farmer buys a car. → Heute kauft der Bauer ein Auto. (the verb stays second)"""
    if clause.time is None:
        raise ValueError(f"The clause with {clause.verb.name!r} has no time to put in front.")
    rest = replace(clause, time=None)
    return sentence(
        f"{clause.time.english}, {english_statement(rest)}",
        f"{clause.time.german} {german_verb_first(rest)}",
        clause.combinations,
    )


def question(clause: Clause, english_word: str = "", german_word: str = "") -> Sentence:
    """Does the farmer buy a car? or, with a question word: Where does the farmer buy the car?"""
    return sentence(
        _joined([english_word, english_question(clause)]),
        _joined([german_word, german_verb_first(clause)]),
        clause.combinations,
        end="?",
    )
