"""How much of the damage done to a corpus on purpose the doctor finds, and how long a large corpus takes it.

    python -m benchmarks.doctor damage DATA             precision and recall for each kind of damage
    python -m benchmarks.doctor parting DATA            how far from the truth the line is where two files part
    python -m benchmarks.doctor pays DATA --out FOLDER  BLEU after training on a damaged corpus, and on it cleaned
    python -m benchmarks.doctor speed --pairs 1000000   seconds and memory of the quick and of the full report

DATA holds `multi30k/train.en.gz` and so on. For `damage`, one half of Multi30K's training pairs gets damage of every
kind at known places, each kind in 1 % of the pairs, no pair twice. What is found in the same half undamaged is taken
away. The thresholds were chosen on English-German (`--target de`); English-French, which had no say in them, is
reported. A pair counts as found when it is given the name that belongs to its damage; under any other name it is a
false alarm of that name, apart from what IMPLIED says.
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attendo.doctor.examination import Examination, examine
from attendo.doctor.findings import BY_NAME
from attendo.doctor.parting import find_parting
from attendo.text.corpus import CorpusFiles
from benchmarks.runs import add_data

Pair = tuple[str, str]

SHARE = 0.01  # of the pairs, for each kind of damage
STRETCH = 20  # lines of a shifted stretch
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyzäöüß", "абцдефгхижклмнопярстуввхызэёюш")
NOISE = "|/\\*+=#~^_<>%$§0123456789"


@dataclass
class Corpus:
    """Undamaged pairs, the same lines in a third language, a test set, and the pairs in which nothing is found."""

    pairs: list[Pair]
    third: list[str]
    test: list[Pair]
    draw: random.Random
    sound: list[int] = field(default_factory=list)


@dataclass
class Victim:
    """A pair to be damaged, and what a damage can take from."""

    corpus: Corpus
    number: int

    @property
    def source(self) -> str:
        return self.corpus.pairs[self.number][0]

    @property
    def target(self) -> str:
        return self.corpus.pairs[self.number][1]

    @property
    def third(self) -> str:
        return self.corpus.third[self.number]

    @property
    def draw(self) -> random.Random:
        return self.corpus.draw

    def other(self) -> Pair:
        """A pair in which nothing is found, so that no other damage comes with it."""
        return self.corpus.pairs[self.draw.choice(self.corpus.sound)]

    def into(self, text: str, *choice: str) -> str:
        """With one of these between two words."""
        words = text.split(" ")
        place = self.draw.randrange(1, len(words)) if len(words) > 1 else 0
        return " ".join([*words[:place], self.draw.choice(choice), *words[place:]])

    def inside(self, text: str, choice: str) -> str:
        """With one of these characters between two others."""
        place = self.draw.randrange(1, max(2, len(text)))
        return text[:place] + self.draw.choice(choice) + text[place:]

    def one_side(self, change: Callable[[str], str]) -> Pair:
        return (change(self.source), self.target) if self.draw.random() < 0.5 else (self.source, change(self.target))

    def without_a_word(self, text: str) -> str:
        words = text.split(" ")
        del words[self.draw.randrange(len(words))]
        return " ".join(words)

    def looped(self, text: str) -> str:
        words = text.split(" ")
        place, length = self.draw.randrange(len(words)), self.draw.randrange(1, 4)
        return " ".join([*words[:place], *words[place : place + length] * 4, *words[place + length :]])

    def noise(self) -> str:
        return " ".join("".join(self.draw.choices(NOISE, k=self.draw.randrange(2, 6))) for _ in range(6)) + " ab"


def accented(text: str) -> str:
    return text if any(character in text for character in "äöüéèàç") else f"{text} É."


def joined(pairs: Sequence[Pair]) -> Pair:
    source, target = (" ".join(side) for side in zip(*pairs, strict=True))
    return source, target


def cut_off(text: str) -> str:
    words = text.split(" ")
    return " ".join(words[: max(1, len(words) // 4)])


# Damage: the name it has to be found by, and what it does.
DAMAGES: dict[str, tuple[str, Callable[[Victim], Pair]]] = {
    "bytes of Latin-1": ("undecodable", lambda v: (v.source, accented(v.target))),  # see `write`
    "mojibake": ("mojibake", lambda v: (v.source, accented(v.target).encode().decode("windows-1252", "replace"))),
    "lost character": ("lost_characters", lambda v: (v.source, v.inside(v.target, "\ufffd"))),
    "byte order mark": ("bom", lambda v: ("\ufeff" + v.source, v.target)),
    "NUL": ("control_characters", lambda v: (v.source, v.inside(v.target, "\0"))),
    "control character": ("control_characters", lambda v: (v.inside(v.source, "\x07\x08\x1b\x9d"), v.target)),
    "hidden character": ("hidden_characters", lambda v: (v.source, v.inside(v.target, "\u00ad\u200b\u2060"))),
    "CRLF": ("line_ends", lambda v: (v.source, v.target + "\r")),
    "line separator": ("line_breaks", lambda v: (v.into(v.source, "\u2028", "\x0b", "\x85", "\x0c"), v.target)),
    "not NFC": ("not_nfc", lambda v: (v.source, unicodedata.normalize("NFD", accented(v.target)))),
    "empty source": ("empty", lambda v: ("", v.target)),
    "empty target": ("empty", lambda v: (v.source, "")),
    "source copied": ("identical", lambda v: (v.source, v.source)),
    "target copied": ("identical", lambda v: (v.target, v.target)),
    "another script": ("wrong_script", lambda v: (v.source, v.target.lower().translate(CYRILLIC))),
    "target in the source language": ("wrong_language", lambda v: (v.source, v.other()[0])),
    "source in the target language": ("wrong_language", lambda v: (v.other()[1], v.target)),
    "sides swapped": ("wrong_language", lambda v: (v.target, v.source)),
    "target in a third language": ("foreign", lambda v: (v.source, v.third)),
    "target cut off": ("length_ratio", lambda v: (v.source, cut_off(v.target))),
    "target runs on": ("length_ratio", lambda v: (v.source, " ".join([v.target, v.other()[1], v.other()[1]]))),
    "very long": ("too_long", lambda v: joined([v.other() for _ in range(25)])),
    "very short": ("too_short", lambda v: (v.draw.choice(["3.", "a", "-", "(b)"]), v.draw.choice(["3.", "–", "b"]))),
    "signs": ("symbols", lambda v: (v.noise(), v.noise())),
    "other digits": ("digits", lambda v: (v.into(v.source, "1987"), v.into(v.target, "1978", "19"))),
    "digits on one side": ("digits", lambda v: v.one_side(lambda text: v.into(text, str(v.draw.randrange(9999))))),
    "URL": ("urls", lambda v: v.one_side(lambda text: v.into(text, f"https://ex{v.number}.org/?b={v.number}"))),
    "e-mail address": ("emails", lambda v: v.one_side(lambda text: v.into(text, f"a.b{v.number}@ex.org"))),
    "placeholder": ("placeholders", lambda v: v.one_side(lambda text: v.into(text, "{name}", "%s", "${x}", "%1$d"))),
    "tag on one side": ("placeholders", lambda v: v.one_side(lambda text: f"<b>{text}</b>")),
    "markup": ("markup", lambda v: (f'<a href="x">{v.source}</a>', f'<a href="x">{v.target}</a>')),
    "entity": ("entities", lambda v: (v.into(v.source, "&amp;"), v.into(v.target, "&#38;"))),
    "bracket": ("brackets", lambda v: v.one_side(lambda text: v.into(text, *"([{)"))),
    "quotation mark": ("quotes", lambda v: v.one_side(lambda text: v.into(text, *'"„“'))),
    "gap": ("spaces", lambda v: v.one_side(lambda text: v.into(text, "", "\t"))),
    "words repeated": ("repeated_words", lambda v: v.one_side(v.looped)),
    "character repeated": ("repeated_characters", lambda v: v.one_side(lambda text: text + v.draw.choice("!.aö-") * 9)),
    "another target": ("doubtful", lambda v: (v.source, v.other()[1])),
    "shifted stretch": ("shifted", lambda v: (v.source, v.target)),  # see `shift`
    "duplicate": ("duplicate", lambda v: (v.source, v.target)),  # of another pair, like the next two
    "near duplicate": ("near_duplicate", lambda v: (v.without_a_word(v.source), v.without_a_word(v.target))),
    "several targets": ("several_targets", lambda v: (v.source, " ".join(reversed(v.target.split(" "))))),
    "in the test set": ("in_test", lambda v: v.draw.choice(v.corpus.test)),
}
OF_ANOTHER = {"duplicate", "near duplicate", "several targets"}

# What a damage rightly shows as, besides its own name.
IMPLIED = {
    "another target": {"length_ratio", "digits"},  # it may be much longer, or have a number
    "several targets": {"near_duplicate"},  # all of its words are the same
    "in the test set": {"duplicate"},  # a test pair may be drawn twice
}


def damage(corpus: Corpus, share: float) -> tuple[list[Pair], dict[str, set[int]]]:
    """The damaged pairs, and where each damage was done."""
    pairs, count = list(corpus.pairs), round(share * len(corpus.pairs))
    places: dict[str, set[int]] = defaultdict(set)
    places["shifted stretch"] = shift(pairs, count, corpus.draw)
    order = sorted(set(range(len(pairs))) - places["shifted stretch"])
    corpus.draw.shuffle(order)
    for name, (_, change) in DAMAGES.items():
        for _ in range(count if name != "shifted stretch" else 0):
            origin = number = order.pop()
            if name in OF_ANOTHER:  # the later of two pairs becomes a copy of the earlier
                origin, number = sorted((order.pop(), number))
            pairs[number] = change(Victim(corpus, origin))
            places[name] |= {number, origin} if name == "several targets" else {number}
    return pairs, places


def shift(pairs: list[Pair], count: int, draw: random.Random) -> set[int]:
    """Moves the targets of some stretches by up to three lines; those pushed out at one end come in at the other."""
    shifted = set()
    for block in draw.sample(range(len(pairs) // STRETCH), count // STRETCH):
        lines = range(block * STRETCH, (block + 1) * STRETCH)
        targets = [pairs[number][1] for number in lines]
        step = draw.choice([-3, -2, -1, 1, 2, 3])
        for number, target in zip(lines, targets[step:] + targets[:step], strict=True):
            pairs[number] = pairs[number][0], target
        shifted |= set(lines)
    return shifted


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.strip() for line in file.read().removesuffix("\n").split("\n")]


def load(data: Path, half: str, target_language: str = "de") -> Corpus:
    """One half of the training pairs from English, or both."""
    lines = {"even": slice(1, None, 2), "odd": slice(0, None, 2), "both": slice(None)}[half]  # line 1 is odd
    languages = ("en", target_language, "fr" if target_language == "de" else "de")
    source, target, third = (read(data / f"multi30k/train.{language}.gz")[lines] for language in languages)
    test = [read(data / f"multi30k/test_2016_flickr.{language}.gz") for language in languages[:2]]
    return Corpus(
        list(zip(source, target, strict=True)), third, list(zip(test[0], test[1], strict=True)), random.Random(half)
    )


def write(folder: Path, pairs: Sequence[Pair], latin: set[int] = frozenset()) -> CorpusFiles:  # type: ignore[assignment]
    """Two files; of the pairs in `latin`, the target in Latin-1."""
    folder.mkdir()
    for side, name in enumerate(("train.en", "train.de")):
        encodings = ("latin-1" if side and number in latin else "utf-8" for number in range(len(pairs)))
        encoded = (pair[side].encode(encoding, "replace") for pair, encoding in zip(pairs, encodings, strict=True))
        (folder / name).write_bytes(b"".join(line + b"\n" for line in encoded))
    return CorpusFiles(source=str(folder / "train.en"), target=str(folder / "train.de"))


def numbers(examination: Examination, kind: str) -> set[int]:
    return set(np.flatnonzero(examination.findings.having(kind)).tolist())


def measure_damage(data: Path, half: str, target_language: str) -> None:
    corpus = load(data, half, target_language)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        test = write(folder / "test", corpus.test)
        clean = examine(write(folder / "clean", corpus.pairs), test=test, pieces=False)
        corpus.sound = np.flatnonzero(clean.findings.bits == 0).tolist()
        pairs, places = damage(corpus, SHARE)
        files = write(folder / "dirty", pairs, places["bytes of Latin-1"])
        dirty = examine(files, test=test, pieces=False)
    print(f"{len(pairs):,} pairs (English-{target_language}, {half} lines),", end=" ")
    print(f"{len(DAMAGES)} kinds of damage, {SHARE:.0%} of the pairs each.\n")
    print("| damage | found as | recall | precision |\n|---|---|---|---|")
    for name, (kind, _) in DAMAGES.items():
        found = numbers(dirty, kind)
        truth = set().union(*(places[other] for other, (as_kind, _) in DAMAGES.items() if as_kind == kind))
        allowed = set().union(numbers(clean, kind), *(places[other] for other in IMPLIED if kind in IMPLIED[other]))
        false = found - truth - allowed
        recall = len(found & places[name]) / len(places[name])
        precision = len(found & truth) / max(1, len(found & truth) + len(false))
        print(f"| {name} | `{kind}` | {recall:.3f} | {precision:.3f} |")
        if false or recall < 1:
            whose = {other: len(false & some) for other, some in places.items() if false & some}
            missed = [dirty.findings.names(number) for number in sorted(places[name] - found)[:5]]
            print(f"    {name}: false {len(false)} {whose}; missed {missed}", file=sys.stderr)
    damaged = set().union(*places.values())
    to_drop = set().union(*(places[name] for name, (kind, _) in DAMAGES.items() if BY_NAME[kind].action == "drop"))
    dropped = set(np.flatnonzero(dirty.dropped).tolist())
    print(f"\nCleaning drops {clean.dropped.mean():.2%} of the undamaged pairs. Of the damaged corpus it drops")
    print(
        f"{len(dropped & to_drop) / len(to_drop):.1%} of what is to be dropped, and {len(dropped - damaged):,} of the"
    )
    print(f"{len(pairs) - len(damaged):,} pairs that nothing was done to.")


def measure_parting(data: Path, half: str, times: int = 20) -> None:
    """A line is taken from one side, or several are, or one is doubled, at a random place."""
    corpus = load(data, half)
    print("| lines | trials | exact | within 2 lines | median distance |\n|---|---|---|---|---|")
    for change in (-1, 1, -3, 3):
        distances = []
        for _ in range(times):
            place = corpus.draw.randrange(100, len(corpus.pairs) - 100)
            sides = [list(side) for side in zip(*corpus.pairs, strict=True)]
            if change < 0:
                del sides[1][place : place - change]
            else:
                sides[1][place:place] = [corpus.draw.choice(corpus.pairs)[1] for _ in range(change)]
            with tempfile.TemporaryDirectory() as scratch:
                paths = [Path(scratch) / name for name in ("a.en", "a.de")]
                for path, lines in zip(paths, sides, strict=True):
                    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                files = CorpusFiles(source=str(paths[0]), target=str(paths[1]))
                distances.append(abs(find_parting(files, len(sides[0]), len(sides[1])).line - place))
        exact, near = (np.mean(np.array(distances) <= most) for most in (0, 2))
        print(f"| {change:+d} | {times} | {exact:.0%} | {near:.0%} | {np.median(distances):.0f} |")


def measure_gain(data: Path, out: Path, effort: str) -> None:
    """Trains on Multi30K with a third of its pairs damaged, and on what cleaning leaves of that, for the same time."""
    corpus = load(data, "both")
    out.mkdir(parents=True)
    corpus.sound = list(range(len(corpus.pairs)))
    pairs, places = damage(corpus, 1 / 3 / len(DAMAGES))
    dirty = write(out / "dirty", pairs)  # all of it UTF-8, which training insists on
    print(f"{len(set().union(*places.values())):,} of {len(pairs):,} pairs damaged.", flush=True)
    attendo = [sys.executable, "-m", "attendo"]
    subprocess.run([*attendo, "check", dirty.source, str(dirty.target), "--clean", str(out / "clean"), "--quiet"])
    test = [str(data / f"multi30k/test_2016_flickr.{language}.gz") for language in ("en", "de")]
    runs = {name: str(out / f"run-{name}") for name in ("dirty", "clean")}
    # Both at once, on a core each, so that neither has a quieter machine than the other.
    training = [
        subprocess.Popen(
            [
                *(*attendo, "train", str(out / name / f"{stem}.en"), str(out / name / f"{stem}.de")),
                *("--out", runs[name], "--effort", effort, "--processes", "1", "--threads", "1", "--quiet"),
            ]
        )
        for name, stem in (("dirty", "train"), ("clean", "clean"))
    ]
    if any(one.wait() for one in training):
        sys.exit("a training failed")
    for name, run in runs.items():
        scored = subprocess.run(
            [*attendo, "evaluate", run, *test, "--json"], check=True, capture_output=True, text=True
        )
        bleu = json.loads(scored.stdout)["bleu"]
        print(f"{name}: BLEU {bleu['score']:.1f} ({bleu['signature']})", flush=True)


# What the watched process does; its last line says how it went.
EXAMINE = """
import json, resource, sys, time
from attendo.doctor.examination import examine
from attendo.text.corpus import CorpusFiles
began = time.monotonic()
found = examine(CorpusFiles(source=sys.argv[1], target=sys.argv[2]), quick=sys.argv[3] == "quick")
seconds = time.monotonic() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, len(found.findings)]))
"""


def measure_speed(n_pairs: int, kinds: Sequence[str]) -> None:
    """Random sentences of random words with their word-for-word translations: as fast to read as real ones."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / name for name in ("train.xx", "train.yy")]
        generate(paths, n_pairs)
        size = sum(path.stat().st_size for path in paths) / 2**20
        print(f"{n_pairs:,} pairs, {size:,.0f} MB\n\n| report | seconds | peak memory (GB) |\n|---|---|---|")
        for kind in kinds:
            done = subprocess.run(
                [sys.executable, "-c", EXAMINE, *map(str, paths), kind], check=True, capture_output=True, text=True
            )
            seconds, memory, _ = json.loads(done.stdout.splitlines()[-1])
            print(f"| {kind} | {seconds:.0f} | {memory:.2f} |", flush=True)


def generate(paths: Sequence[Path], n_pairs: int, n_words: int = 50_000, chunk: int = 100_000) -> None:
    draw = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = [
        np.array(["".join(draw.choice(letters, size)) for size in draw.integers(2, 10, n_words)]) for _ in range(2)
    ]
    with paths[0].open("w", encoding="utf-8") as source, paths[1].open("w", encoding="utf-8") as target:
        for first in range(0, n_pairs, chunk):
            lengths = draw.integers(6, 19, min(chunk, n_pairs - first))
            ranks = (n_words * draw.random(int(lengths.sum())) ** 3).astype(np.int64)  # few words are frequent
            for file, side in ((source, words[0]), (target, words[1])):
                lines = np.split(side[ranks], np.cumsum(lengths)[:-1])
                file.writelines(" ".join(line) + ".\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["damage", "parting", "pays", "speed"])
    add_data(parser, "multi30k/")
    parser.add_argument("--half", choices=["even", "odd"], default="odd", help="of `damage` and `parting`")
    parser.add_argument("--target", choices=["de", "fr"], default="fr", help="language of `damage`")
    parser.add_argument("--out", type=Path, default=Path("runs/doctor"), help="of `pays`; must not exist")
    parser.add_argument("--effort", default="quick", help="of each training of `pays`")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="of `speed`")
    parser.add_argument("--kinds", nargs="+", choices=["quick", "full"], default=["quick", "full"], help="of `speed`")
    arguments = parser.parse_args()
    if arguments.what == "speed":
        measure_speed(arguments.pairs, arguments.kinds)
        return
    if arguments.data is None:
        parser.error("give the folder of the data, or set ATTENDO_DATA")
    began, data = time.monotonic(), Path(arguments.data)
    if arguments.what == "damage":
        measure_damage(data, arguments.half, arguments.target)
    elif arguments.what == "parting":
        measure_parting(data, arguments.half)
    else:
        measure_gain(data, arguments.out, arguments.effort)
    print(f"\n{time.monotonic() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
