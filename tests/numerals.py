"""A language pair that a tiny model learns in seconds: number words, one for one."""

import random
from pathlib import Path

ENGLISH = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "red", "green", "Köln")
GERMAN = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "rot", "grün", "Cologne")


def sentence_pairs(n: int, *, seed: int) -> list[tuple[str, str]]:
    """Pairs of 1 to 9 words."""
    generator = random.Random(seed)
    pairs = []
    for _ in range(n):
        words = [generator.randrange(len(ENGLISH)) for _ in range(generator.randint(1, 9))]
        source = " ".join(ENGLISH[word] for word in words)
        target = " ".join(GERMAN[word] for word in words)
        pairs.append((source + ".", target + "."))
    return pairs


def write_corpus(folder: Path, *, pairs: int, seed: int = 7) -> tuple[Path, Path]:
    source, target = folder / "train.en", folder / "train.de"
    both = sentence_pairs(pairs, seed=seed)
    source.write_text("".join(f"{one}\n" for one, _ in both), encoding="utf-8")
    target.write_text("".join(f"{other}\n" for _, other in both), encoding="utf-8")
    return source, target
