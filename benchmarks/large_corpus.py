"""Ten million pairs in under 4 GB of anonymous memory, tokenised once.

    python -m benchmarks.large_corpus --pairs 10000000 --out runs/large --steps 50

Writes a corpus of random sentences, trains the `tiny` preset on it for a few steps, and trains it again: the second run
finds the tokenised corpus and does not read it anew. Meanwhile the anonymous memory (RssAnon: what the system cannot
drop and read again from a file) of the training process and its children is sampled. Writes RESULT.json and RESULT.md
into the folder. Needs Linux, for /proc.
"""

import argparse
import datetime
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendo import machine

SECONDS_BETWEEN_SAMPLES = 0.2
SHORTEST, LONGEST = 8, 12  # words of a sentence
N_WORDS = 50_000
CHUNK = 100_000
LIMIT_GB = 4.0

Words = NDArray[np.object_]

# What the watched process does. Its last line tells how long each part took.
RUN = """
import json, sys, time
from attendo import run
from attendo.reporting import Silent

class Words(Silent):
    def say(self, text):
        print(text, file=sys.stderr, flush=True)

def timed_prepare(*arguments, prepare=run.prepare, **named):
    began = time.monotonic()
    prepared = prepare(*arguments, **named)
    seconds["preparing"] = round(time.monotonic() - began, 1)
    return prepared

seconds = {}
run.prepare = timed_prepare
settings, out = json.loads(sys.argv[1]), sys.argv[2]
began = time.monotonic()
bundle = run.train(settings=settings, preset="tiny", out=out, reporter=Words())
seconds["training"] = round(time.monotonic() - began - seconds["preparing"], 1)
facts = bundle.data()
print(json.dumps({"seconds": seconds, "pairs": facts["pairs"], "vocab_size": facts["vocab_size"]}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--out", default="runs/large", help="folder for corpus, runs and result; must not exist")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--vocab-size", type=int, help="chosen from the corpus when not given")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True)

    began = time.monotonic()
    source, target = out / "train.xx", out / "train.yy"
    write_corpus(source, target, arguments.pairs, arguments.seed)
    generating = time.monotonic() - began
    settings = {
        "data": {"source": str(source), "target": str(target)},
        "tokenizer": {"vocab_size": arguments.vocab_size},
        "training": {"steps": arguments.steps, "validate_every": arguments.steps},
        "seed": arguments.seed,
    }
    runs = {name: watched_run(settings, out / name) for name in ("first", "second")}
    result = {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python", "-m", "benchmarks.large_corpus", *sys.argv[1:]]),
        "machine": machine.describe(),
        "pairs": arguments.pairs,
        "corpus_gb": round((source.stat().st_size + target.stat().st_size) / 2**30, 2),
        "generating_seconds": round(generating, 1),
        "tokenised_gb": round(sum(path.stat().st_size for path in out.glob(".cache/*/*")) / 2**30, 2),
        "limit_gb": LIMIT_GB,
        "runs": runs,
    }
    (out / "RESULT.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (out / "RESULT.md").write_text(table(result), encoding="utf-8")
    print(table(result))
    if max(run["peak_anonymous_gb"] for run in runs.values()) >= LIMIT_GB:
        sys.exit(f"more than {LIMIT_GB} GB of anonymous memory")


def write_corpus(source: Path, target: Path, pairs: int, seed: int) -> None:
    """Random sentences over two vocabularies, some words more frequent than others, as in a language."""
    rng = np.random.default_rng(seed)
    words = [vocabulary(rng, "aeiou", "bcdfgklmnprst"), vocabulary(rng, "aeiouy", "bdfghklmnrstwz")]
    chances = 1 / np.arange(10, N_WORDS + 10)
    steps = np.cumsum(chances / chances.sum())
    with source.open("wb") as first, target.open("wb") as second:
        for done in range(0, pairs, CHUNK):
            n = min(CHUNK, pairs - done)
            lengths = rng.integers(SHORTEST, LONGEST + 1, n)
            chosen = np.minimum(np.searchsorted(steps, rng.random(lengths.sum())), N_WORDS - 1)
            last = np.zeros(len(chosen), dtype=bool)
            last[np.cumsum(lengths) - 1] = True
            for file, (inside, final) in zip((first, second), words, strict=True):
                file.write(b"".join(np.where(last, final[chosen], inside[chosen]).tolist()))


def vocabulary(rng: np.random.Generator, vowels: str, consonants: str) -> tuple[Words, Words]:
    """Made-up words of two to four syllables, each followed by a space, and each followed by a line end."""
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    words: set[str] = set()
    while len(words) < N_WORDS:
        drawn = rng.choice(syllables, (N_WORDS, 4)).tolist()
        words |= {"".join(four[:n]) for four, n in zip(drawn, rng.integers(2, 5, N_WORDS).tolist(), strict=True)}
    ordered = rng.permutation(sorted(words))[:N_WORDS].tolist()
    inside, last = (np.array([(word + end).encode() for word in ordered], dtype=object) for end in " \n")
    return inside, last


def watched_run(settings: dict[str, Any], out: Path) -> dict[str, Any]:
    """Trains in a process of its own; what it reports, with its peak of anonymous memory."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, json.dumps(settings), str(out)], stdout=subprocess.PIPE, text=True
    )
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(SECONDS_BETWEEN_SAMPLES)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        sys.exit(f"the run in {out} failed with exit code {process.returncode}")
    return {**json.loads(output.splitlines()[-1]), "peak_anonymous_gb": round(peak / 2**30, 3)}


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process and all its descendants, in bytes."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                total += int(line.split()[1]) * 1024
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                total += anonymous_bytes(int(child))
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        pass
    return total


def table(result: dict[str, Any]) -> str:
    first, second = result["runs"]["first"], result["runs"]["second"]
    rows = {
        "seconds to prepare the pairs": [run["seconds"]["preparing"] for run in (first, second)],
        "seconds to train, validate and score": [run["seconds"]["training"] for run in (first, second)],
        "peak of anonymous memory, GB": [run["peak_anonymous_gb"] for run in (first, second)],
    }
    lines = [
        f"# {result['pairs']:,} pairs",
        "",
        f"{result['date']}, {result['machine']['processor']}, {result['machine']['cores']} cores; "
        f"`{result['command']}`; a corpus of {result['corpus_gb']} GB, written in {result['generating_seconds']} s; "
        f"{first['pairs']['kept']:,} pairs kept, {first['pairs']['held_out']:,} held out; a vocabulary of "
        f"{first['vocab_size']:,}; {result['tokenised_gb']} GB of ids on disk.",
        "",
        "| | first run: reads, learns pieces, tokenises | second run: finds it done |",
        "|---|---|---|",
        *(f"| {name} | {once} | {again} |" for name, (once, again) in rows.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
