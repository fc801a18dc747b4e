"""What can be wrong with a pair: every kind, why it hurts, and what cleaning does about it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Action = Literal["drop", "repair", "report"]
Group = Literal["files", "pairs", "doubtful", "overlap"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault.

    name: in JSON and in rejected.tsv; title: for people; why: why it hurts
    action: what `--clean` does with such a pair
    broken: the corpus cannot be trusted before this is repaired, so that `attendo check` ends with 1
    unless: kinds that explain this one; a pair that has one of them is not also blamed for it
    """

    name: str
    title: str
    group: Group
    action: Action
    why: str
    broken: bool = False
    unless: tuple[str, ...] = ()


_UNREADABLE = ("undecodable", "broken_row", "unpaired")
_HOLLOW = (*_UNREADABLE, "empty", "too_short", "symbols")
_MISMATCHED = ("wrong_language", "foreign", "shifted", "doubtful")
_GARBLED = (
    *_HOLLOW,
    "identical",
    "wrong_script",
    "mojibake",
    "lost_characters",
    "repeated_words",
    "repeated_characters",
)

KINDS = (
    Kind(
        name="unpaired",
        title="lines without a partner",
        group="files",
        action="drop",
        broken=True,
        why="From the line where the two files part, every source stands beside the wrong target.",
    ),
    Kind(
        name="undecodable",
        title="bytes that are not UTF-8",
        group="files",
        action="drop",
        broken=True,
        why="Nobody can say which characters were meant; training refuses such a file.",
    ),
    Kind(
        name="broken_row",
        title="rows that do not hold a pair",
        group="files",
        action="drop",
        broken=True,
        why="A column or a key is missing, or the row is no valid JSON; training refuses such a file.",
        unless=("undecodable",),
    ),
    Kind(
        name="mojibake",
        title="letters read in the wrong encoding (Ã¼ for ü)",
        group="files",
        action="repair",
        why="The translator learns spellings that do not exist, and writes them.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="lost_characters",
        title="characters lost on the way (\ufffd)",
        group="files",
        action="drop",
        why="The letters that stood there are gone, and the translator learns to write the replacement.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="bom",
        title="byte order marks within the text",
        group="files",
        action="repair",
        why="An invisible character makes a word another word.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="control_characters",
        title="NUL and other control characters",
        group="files",
        action="repair",
        why="They mean nothing in text, and some programs stop at them.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="hidden_characters",
        title="invisible characters (soft hyphens, zero-width spaces, direction marks)",
        group="files",
        action="repair",
        why="An invisible character makes a word another word, and cuts it into other pieces.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="line_ends",
        title="line ends unlike the others of the file",
        group="files",
        action="repair",
        why="A file of mixed line ends was put together from several; other tools keep the \\r as a character.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="line_breaks",
        title="characters that other tools take for line breaks",
        group="files",
        action="report",
        why="attendo does not, but a tool that does shifts all lines after them.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="not_nfc",
        title="text that is not NFC",
        group="files",
        action="repair",
        why="The same letter is spelled in two ways, so that the same word is two words.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="empty",
        title="an empty side",
        group="pairs",
        action="drop",
        why="There is nothing to learn from; training drops it too.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="identical",
        title="source equal to target",
        group="pairs",
        action="drop",
        why="The translator learns to copy instead of to translate.",
        unless=_HOLLOW,
    ),
    Kind(
        name="wrong_script",
        title="a side in another script",
        group="pairs",
        action="drop",
        why="It is not in the language of its side.",
        unless=(*_HOLLOW, "mojibake"),
    ),
    Kind(
        name="wrong_language",
        title="a side in the other side's language",
        group="pairs",
        action="drop",
        why="The translator learns to leave text untranslated, or to answer in the wrong language.",
        unless=_GARBLED,
    ),
    Kind(
        name="foreign",
        title="a side in neither language",
        group="pairs",
        action="drop",
        why="Text of a third language spends pieces and memory, and comes out where nobody wants it.",
        unless=(*_GARBLED, "wrong_language"),
    ),
    Kind(
        name="length_ratio",
        title="one side far too long for the other",
        group="pairs",
        action="drop",
        why="Something is missing on one side, and the translator learns to leave out or to invent.",
        unless=(
            *_HOLLOW,
            "too_long",
            "repeated_words",
            "repeated_characters",
            "wrong_script",
            "wrong_language",
            "foreign",
            "shifted",
        ),
    ),
    Kind(
        name="too_long",
        title="very long lines",
        group="pairs",
        action="drop",
        why="Training drops them or spends much on them; mostly many sentences were not split.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="too_short",
        title="hardly a letter on a side",
        group="pairs",
        action="drop",
        why="Numbers of lists and single signs teach nothing about language.",
        unless=(*_UNREADABLE, "empty"),
    ),
    Kind(
        name="symbols",
        title="more signs than letters",
        group="pairs",
        action="drop",
        why="Tables, menus and rules are not sentences.",
        unless=(*_UNREADABLE, "empty", "too_short", "mojibake", "repeated_characters"),
    ),
    Kind(
        name="digits",
        title="different numbers on the two sides",
        group="pairs",
        action="report",
        why="Wrong numbers are the mistakes that cost most; but one side may spell its numbers out.",
        unless=(*_GARBLED, *_MISMATCHED, "length_ratio", "too_long"),
    ),
    Kind(
        name="urls",
        title="a web address on one side only",
        group="pairs",
        action="drop",
        why="The translator learns to drop addresses or to make them up.",
        unless=(*_HOLLOW, *_MISMATCHED),
    ),
    Kind(
        name="emails",
        title="an e-mail address on one side only",
        group="pairs",
        action="drop",
        why="The translator learns to drop addresses or to make them up.",
        unless=(*_HOLLOW, *_MISMATCHED),
    ),
    Kind(
        name="placeholders",
        title="placeholders or tags on one side only ({name}, %s, <b>)",
        group="pairs",
        action="drop",
        why="A program that fills them in breaks when a translation has lost one.",
        unless=(*_HOLLOW, *_MISMATCHED),
    ),
    Kind(
        name="brackets",
        title="brackets that do not close on one side",
        group="pairs",
        action="report",
        why="A piece of the sentence is likely to be missing there.",
        unless=(*_HOLLOW, *_MISMATCHED),
    ),
    Kind(
        name="quotes",
        title="quotation marks that do not close on one side",
        group="pairs",
        action="report",
        why="A piece of the sentence is likely to be missing there.",
        unless=(*_HOLLOW, *_MISMATCHED),
    ),
    Kind(
        name="markup",
        title="tags in the text of both sides",
        group="pairs",
        action="report",
        why="Good for software texts, a burden elsewhere: strip them if the translator will never see them.",
        unless=(*_UNREADABLE, "placeholders"),
    ),
    Kind(
        name="entities",
        title="HTML entities (&amp;, &#39;)",
        group="pairs",
        action="repair",
        why="They stand for characters that should be there themselves.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="spaces",
        title="several spaces or tabs together",
        group="pairs",
        action="repair",
        why="Each becomes a piece of its own, and the translator writes such gaps too.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="repeated_words",
        title="the same words over and over",
        group="pairs",
        action="drop",
        why="A translator that has seen loops falls into loops.",
        unless=(*_UNREADABLE, "symbols"),
    ),
    Kind(
        name="repeated_characters",
        title="the same character over and over",
        group="pairs",
        action="drop",
        why="A translator that has seen loops falls into loops.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="shifted",
        title="stretches in which one side is shifted against the other",
        group="pairs",
        action="drop",
        broken=True,
        why="Every pair of the stretch is wrong, though each side alone looks well: it ruins corpora in silence.",
        unless=_UNREADABLE,
    ),
    Kind(
        name="doubtful",
        title="pairs that do not look like translations",
        group="doubtful",
        action="drop",
        why="By word tables learned from the corpus itself, they are as unlikely as two lines put together by chance.",
        unless=(*_GARBLED, "wrong_language", "foreign", "length_ratio", "too_long", "shifted"),
    ),
    Kind(
        name="duplicate",
        title="exact copies of an earlier pair",
        group="overlap",
        action="drop",
        why="The same sentence counts several times, and validation may be asked what training has seen.",
        unless=(*_UNREADABLE, "empty", "too_short"),
    ),
    Kind(
        name="near_duplicate",
        title="nearly the same as an earlier pair",
        group="overlap",
        action="report",
        why="It adds little, and between training and test it flatters the scores.",
        unless=(*_UNREADABLE, "empty", "duplicate", "in_test", "in_valid"),
    ),
    Kind(
        name="several_targets",
        title="the same source with several targets",
        group="overlap",
        action="report",
        why="Welcome as paraphrases; a sign of boilerplate or of misalignment where there are many.",
        unless=(*_HOLLOW, *_MISMATCHED, "duplicate", "identical", "length_ratio"),
    ),
    Kind(
        name="in_valid",
        title="pairs whose source or target is also in the validation set",
        group="overlap",
        action="drop",
        why="Validation then measures memory, and training stops too late.",
        unless=(*_UNREADABLE, "empty"),
    ),
    Kind(
        name="in_test",
        title="pairs whose source or target is also in the test set",
        group="overlap",
        action="drop",
        why="The test then measures memory: the score is too good to be true.",
        unless=(*_UNREADABLE, "empty"),
    ),
    Kind(
        name="near_valid",
        title="pairs nearly the same as one of the validation set",
        group="overlap",
        action="report",
        why="They flatter the scores a little.",
        unless=(*_UNREADABLE, "empty", "in_valid"),
    ),
    Kind(
        name="near_test",
        title="pairs nearly the same as one of the test set",
        group="overlap",
        action="report",
        why="They flatter the scores a little.",
        unless=(*_UNREADABLE, "empty", "in_test"),
    ),
)

BY_NAME = {kind.name: kind for kind in KINDS}
_BITS = {kind.name: np.uint64(1 << number) for number, kind in enumerate(KINDS)}


def bits(*names: str) -> np.uint64:
    """The bits of some kinds, together."""
    return np.bitwise_or.reduce([_BITS[name] for name in names], initial=np.uint64(0))


def bits_for(action: Action) -> np.uint64:
    return bits(*(kind.name for kind in KINDS if kind.action == action))


class Findings:
    """Which pair has which faults: 64 bits a pair, one of them a kind.

    bits (N,)
    """

    def __init__(self, bits: NDArray[np.uint64]) -> None:
        self.bits = bits

    def __len__(self) -> int:
        return len(self.bits)

    def mark(self, name: str, where: NDArray[np.bool_] | NDArray[np.int64]) -> None:
        """Adds a fault to the pairs of a mask, or of those numbers."""
        self.bits[where] |= _BITS[name]

    def having(self, *names: str) -> NDArray[np.bool_]:
        """(N,): pairs with one of these faults."""
        return (self.bits & bits(*names)) != 0

    def count(self, name: str) -> int:
        return int(np.count_nonzero(self.having(name)))

    def first(self, name: str, most: int) -> list[int]:
        return [int(number) for number in np.flatnonzero(self.having(name))[:most]]

    def explained(self) -> "Findings":
        """Without the faults that another fault of the same pair explains."""
        left = self.bits.copy()
        for kind in KINDS:
            if kind.unless:
                left[(self.bits & bits(*kind.unless)) != 0] &= ~_BITS[kind.name]
        return Findings(left)

    def names(self, number: int) -> list[str]:
        """The faults of one pair."""
        return [name for name, bit in _BITS.items() if self.bits[number] & bit]
