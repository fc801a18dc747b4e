"""How much of the damage done to a corpus on purpose the doctor finds, and how long a large corpus takes it.

    python -m benchmarks.doctor damage DATA            precision and recall for each kind of damage
    python -m benchmarks.doctor parting DATA           how far from the truth the line is where two files part
    python -m benchmarks.doctor speed --pairs 1000000  seconds and memory of the quick and of the full report

Into one half of Multi30K's training pairs (English-German), damage of every kind is put at known places, each kind into
1 % of the pairs, each pair once. What is found in the same half undamaged is taken away. The thresholds were chosen on
the even lines (`--half even`); the odd lines, which are reported, had no say in them. A pair counts as found when it is
given the name that belongs to its damage; under any other name it is a false alarm there, apart from what IMPLIED says.
"""

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attendo.doctor.examination import Examination, examine
from attendo.doctor.findings import KINDS
from attendo.text.corpus import CorpusFiles

Pair = tuple[str, str]
SHARE = 0.01
DROPPED = {kind.name for kind in KINDS if kind.action == "drop"}
STRETCH = 20  # lines of a shifted stretch
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyzäöüß", "абцдефгхижклмнопярстуввхызэёюш")
NOISE = "|/\\*+=#~^_<>%$§0123456789"


@dataclass
class Corpus:
    """What a damage can take from: all undamaged pairs, French targets of the same lines, a test set."""

    pairs: list[Pair]
    french: list[str]
    test: list[Pair]
    draw: random.Random
    sound: list[int]

    def other(self) -> Pair:
        """A pair in which nothing is found, so that no other damage comes with it."""
        return self.pairs[self.draw.choice(self.sound)]


Damage = Callable[[Corpus, str, str, int], tuple[str, str]]


def into(text: str, what: str, draw: random.Random) -> str:
    """Puts something between two words."""
    words = text.split(" ")
    place = draw.randrange(1, len(words)) if len(words) > 1 else 0
    return " ".join([*words[:place], what, *words[place:]])


def inside(text: str, what: str, draw: random.Random) -> str:
    """Puts something between two characters."""
    place = draw.randrange(1, max(2, len(text)))
    return text[:place] + what + text[place:]


def one_side(corpus: Corpus, source: str, target: str, change: Callable[[str], str]) -> Pair:
    return (change(source), target) if corpus.draw.random() < 0.5 else (source, change(target))


def with_umlaut(text: str) -> str:
    return text if any(character in text for character in "äöü") else text + " Fröhlich."


def dropped_word(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    del words[draw.randrange(len(words))]
    return " ".join(words)


def noise(draw: random.Random) -> str:
    return " ".join("".join(draw.choices(NOISE, k=draw.randrange(2, 6))) for _ in range(6)) + " ab"


# name: (the kind it has to be found as, what it does)
DAMAGES: dict[str, tuple[str, Damage]] = {
    "Latin-1 bytes": ("undecodable", lambda c, s, t, n: (s, with_umlaut(t))),  # written as Latin-1 below
    "mojibake": ("mojibake", lambda c, s, t, n: (s, with_umlaut(t).encode().decode("windows-1252", "replace"))),
    "lost characters": ("lost_characters", lambda c, s, t, n: (s, inside(t, "\ufffd", c.draw))),
    "byte order mark": ("bom", lambda c, s, t, n: ("\ufeff" + s, t)),
    "NUL": ("control_characters", lambda c, s, t, n: (s, inside(t, "\0", c.draw))),
    "control character": ("control_characters", lambda c, s, t, n: (inside(s, c.draw.choice("\x07\x08\x1b\x9d"), c.draw), t)),
    "hidden character": ("hidden_characters", lambda c, s, t, n: (s, inside(t, c.draw.choice("\u00ad\u200b\u2060"), c.draw))),
    "CRLF": ("line_ends", lambda c, s, t, n: (s, t + "\r")),
    "line separator": ("line_breaks", lambda c, s, t, n: (into(s, c.draw.choice("\u2028\x0b\x85\x0c"), c.draw), t)),
    "not NFC": ("not_nfc", lambda c, s, t, n: (s, unicodedata.normalize("NFD", with_umlaut(t)))),
    "empty source": ("empty", lambda c, s, t, n: ("", t)),
    "empty target": ("empty", lambda c, s, t, n: (s, "")),
    "source copied": ("identical", lambda c, s, t, n: (s, s)),
    "target copied": ("identical", lambda c, s, t, n: (t, t)),
    "another script": ("wrong_script", lambda c, s, t, n: (s, t.lower().translate(CYRILLIC))),
    "target in English": ("wrong_language", lambda c, s, t, n: (s, c.other()[0])),
    "source in German": ("wrong_language", lambda c, s, t, n: (c.other()[1], t)),
    "sides swapped": ("wrong_language", lambda c, s, t, n: (t, s)),
    "target in French": ("foreign", lambda c, s, t, n: (s, c.french[n])),
    "target cut off": ("length_ratio", lambda c, s, t, n: (s, " ".join(t.split()[: max(1, len(t.split()) // 4)]))),
    "target runs on": ("length_ratio", lambda c, s, t, n: (s, " ".join([t, c.other()[1], c.other()[1]]))),
    "very long": ("too_long", lambda c, s, t, n: joined([c.other() for _ in range(25)])),
    "very short": ("too_short", lambda c, s, t, n: (c.draw.choice(["3.", "a", "-", "(b)"]), c.draw.choice(["3.", "–", "b"]))),
    "signs": ("symbols", lambda c, s, t, n: (noise(c.draw), noise(c.draw))),
    "digits": ("digits", lambda c, s, t, n: (into(s, "1987", c.draw), into(t, c.draw.choice(["1978", "19"]), c.draw))),
    "digits on one side": ("digits", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, str(c.draw.randrange(9999)), c.draw))),
    "URL": ("urls", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, f"https://ex{n}.org/a?b={n}", c.draw))),
    "e-mail address": ("emails", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, f"a.b{n}@ex.org", c.draw))),
    "placeholder": ("placeholders", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, c.draw.choice(["{name}", "%s", "${x}", "%1$d"]), c.draw))),
    "tag on one side": ("placeholders", lambda c, s, t, n: one_side(c, s, t, lambda x: f"<b>{x}</b>")),
    "markup": ("markup", lambda c, s, t, n: (f'<a href="x">{s}</a>', f'<a href="x">{t}</a>')),
    "entity": ("entities", lambda c, s, t, n: (into(s, "&amp;", c.draw), into(t, "&#38;", c.draw))),
    "bracket": ("brackets", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, c.draw.choice("([{)"), c.draw))),
    "quotation mark": ("quotes", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, c.draw.choice('"„“'), c.draw))),
    "spaces": ("spaces", lambda c, s, t, n: one_side(c, s, t, lambda x: into(x, c.draw.choice(["", "\t"]), c.draw))),
    "words repeated": ("repeated_words", lambda c, s, t, n: one_side(c, s, t, lambda x: looped(x, c.draw))),
    "characters repeated": ("repeated_characters", lambda c, s, t, n: one_side(c, s, t, lambda x: x + c.draw.choice("!.aö-") * 9)),
    "another target": ("doubtful", lambda c, s, t, n: (s, c.other()[1])),
    "shifted stretch": ("shifted", lambda c, s, t, n: (s, t)),  # done to whole stretches below
    "duplicate": ("duplicate", lambda c, s, t, n: (s, t)),  # of another pair, below
    "near duplicate": ("near_duplicate", lambda c, s, t, n: (dropped_word(s, c.draw), dropped_word(t, c.draw))),  # as well
    "several targets": ("several_targets", lambda c, s, t, n: (s, " ".join(reversed(t.split(" "))))),  # as well
    "in the test set": ("in_test", lambda c, s, t, n: c.draw.choice(c.test)),
}
OF_ANOTHER = {"duplicate", "near duplicate", "several targets"}

# What one damage rightly shows as, besides its own name.
IMPLIED = {
    "another target": {"length_ratio", "digits"},  # which it may have by chance
    "several targets": {"near_duplicate"},  # all of its words are the same
    "in the test set": {"duplicate"},  # a test pair may be drawn twice
}


def joined(pairs: Sequence[Pair]) -> Pair:
    source, target = (" ".join(side) for side in zip(*pairs, strict=True))
    return source, target


def looped(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    place, length = draw.randrange(len(words)), draw.randrange(1, 4)
    return " ".join([*words[:place], *words[place : place + length] * 4, *words[place + length :]])


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.strip() for line in file.read().removesuffix("\n").split("\n")]


def load(data: Path, half: str) -> Corpus:
    sides = [read(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de", "fr")]
    source, target, french = (side[1 if half == "odd" else 0 :: 2] for side in sides)
    test = [read(data / "multi30k" / f"test_2016_flickr.{language}.gz") for language in ("en", "de")]
    return Corpus(list(zip(source, target, strict=True)), french, list(zip(*test, strict=True)), random.Random(half), [])


def damage(corpus: Corpus, names: Sequence[str]) -> tuple[list[Pair], dict[str, set[int]], set[int]]:
    """The damaged pairs, where each damage was done, and which targets are to be written as Latin-1."""
    pairs, draw = list(corpus.pairs), corpus.draw
    count = round(SHARE * len(pairs))
    places: dict[str, set[int]] = defaultdict(set)
    free = set(range(len(pairs)))
    if "shifted stretch" in names:
        blocks = draw.sample(range(len(pairs) // STRETCH), count // STRETCH)
        for block in blocks:
            lines = list(range(block * STRETCH, (block + 1) * STRETCH))
            step = draw.choice([-3, -2, -1, 1, 2, 3])
            targets = [pairs[number][1] for number in lines]
            for number, target in zip(lines, targets[step:] + targets[:step], strict=True):
                pairs[number] = pairs[number][0], target
            places["shifted stretch"] |= set(lines)
            free -= set(lines)
    order = sorted(free)
    draw.shuffle(order)
    for name in names:
        if name == "shifted stretch":
            continue
        change = DAMAGES[name][1]
        for _ in range(count):
            number = order.pop()
            origin = number
            if name in OF_ANOTHER:  # the later of two pairs is damaged, so that it comes second
                origin, number = sorted((order.pop(), number))
            pairs[number] = change(corpus, *corpus.pairs[origin], origin)
            places[name] |= {number, origin} if name == "several targets" else {number}
    return pairs, places, places["Latin-1 bytes"]


def write(folder: Path, pairs: Sequence[Pair], latin: set[int]) -> CorpusFiles:
    folder.mkdir()
    for side, name in enumerate(("train.en", "train.de")):
        encoded = (pair[side].encode("latin-1" if side and n in latin else "utf-8", "replace") for n, pair in enumerate(pairs))
        (folder / name).write_bytes(b"".join(line + b"\n" for line in encoded))
    return CorpusFiles(source=str(folder / "train.en"), target=str(folder / "train.de"))


def measure_damage(data: Path, half: str) -> None:
    corpus = load(data, half)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        test = write(folder / "test", corpus.test, set())
        clean = examine(write(folder / "clean", corpus.pairs, set()), test=test)
        corpus.sound = np.flatnonzero(clean.findings.bits == 0).tolist()
        pairs, places, latin = damage(corpus, list(DAMAGES))
        dirty = examine(write(folder / "dirty", pairs, latin), test=test)
    print(f"{len(pairs):,} pairs ({half} lines), {len(DAMAGES)} kinds of damage in {SHARE:.0%} of the pairs each.\n")
    print("| damage | found as | recall | precision of that name |\n|---|---|---|---|")
    for name, (kind, _) in DAMAGES.items():
        found = numbers(dirty, kind)
        truth = set().union(*(places[other] for other, (as_kind, _) in DAMAGES.items() if as_kind == kind))
        implied = set().union(*(places[other] for other, kinds in IMPLIED.items() if kind in kinds))
        new = (found - numbers(clean, kind) | found & truth) - implied | found & truth
        recall = len(found & places[name]) / len(places[name])
        precision = len(new & truth) / max(1, len(new))
        print(f"| {name} | `{kind}` | {recall:.3f} | {precision:.3f} |")
        wrong = {other: len((new - truth) & some) for other, some in places.items() if (new - truth) & some}
        rest = len(new - truth) - sum(wrong.values())
        missed = places[name] - found
        print(f"    false: {wrong} elsewhere {rest}; missed as {[dirty.findings.names(n) for n in sorted(missed)[:6]]}", file=sys.stderr)
    print(f"\nCleaning the undamaged half loses {clean.dropped.mean():.3%} of it.")
    damaged = set().union(*places.values())
    to_drop = set().union(*(places[name] for name, (kind, _) in DAMAGES.items() if kind in DROPPED))
    dropped = set(np.flatnonzero(dirty.dropped).tolist())
    print(f"Cleaning the damaged half drops {len(dropped & to_drop) / len(to_drop):.1%} of what is to be dropped, and")
    print(f"{len(dropped - damaged) / (len(pairs) - len(damaged)):.2%} of the pairs that nothing was done to.")


def numbers(examination: Examination, kind: str) -> set[int]:
    return set(np.flatnonzero(examination.findings.having(kind)).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["damage"])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--half", choices=["even", "odd"], default="odd")
    arguments = parser.parse_args()
    measure_damage(arguments.data, arguments.half)


if __name__ == "__main__":
    main()
