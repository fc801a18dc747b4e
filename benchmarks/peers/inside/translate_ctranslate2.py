"""CTranslate2 called by hand, on ready-made tokens.

    python -m benchmarks.peers.inside.translate_ctranslate2 JOB.json

What a careful user would do: sort by length, cut into batches, queue them all for one worker on each core. The limit of
a translation is that of the others here: the source's length and 50 more.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import ctranslate2

Candidate = tuple[int, int, int, str]  # workers, threads of each, largest batch, its unit

CORES = len(os.sched_getaffinity(0))
# One worker with all threads is not tried: on two cores it was 4 to 8 times slower, and much more on a busy machine.
CANDIDATES: list[Candidate] = [
    *((CORES, 1, size, "examples") for size in (16, 32, 64, 128)),
    *((CORES, 1, size, "tokens") for size in (512, 1024, 2048)),
]

EXTRA_LENGTH = 50


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    sources = [line.split() for line in Path(job["ids"]).read_text().splitlines()]
    if job["tune"]:
        rate, candidate = max((_rate(job, sources, candidate), candidate) for candidate in CANDIDATES)
        found: Any = {"rate": rate, "candidate": candidate}
    elif job["singles"]:
        spent = {threads: _singly(job, sources, threads) for threads in dict.fromkeys((1, CORES))}
        best = min(spent, key=lambda threads: statistics.median(spent[threads]))
        found = {"single_seconds": spent[best], "single_threads": best, "one_thread_seconds": spent[1]}
    else:
        found = _timed(job, sources)
    Path(job["out"]).write_text(json.dumps(found))


def _load(job: dict[str, Any], candidate: Candidate) -> ctranslate2.Translator:
    workers, threads, _, _ = candidate
    return ctranslate2.Translator(
        job["model"],
        compute_type=job["precision"],
        inter_threads=workers,
        intra_threads=threads,
        max_queued_batches=-1,
    )


def _translate(
    translator: ctranslate2.Translator, sources: list[list[str]], beam: int, candidate: Candidate
) -> list[list[str]]:
    """All batches at once into the queue of the workers, each with the limit that its longest source permits."""
    under_way = [
        (
            rows,
            translator.translate_batch(
                [[*sources[i], "end"] for i in rows],
                beam_size=beam,
                max_input_length=0,
                max_decoding_length=len(sources[rows[0]]) + EXTRA_LENGTH,
                asynchronous=True,
            ),
        )
        for rows in _batches(sources, candidate)
    ]
    # What a result holds becomes Python's only when it is read, and whoever translates wants to read it.
    found = {i: one.result().hypotheses[0] for rows, results in under_way for i, one in zip(rows, results, strict=True)}
    return [found[i] for i in range(len(sources))]


def _batches(sources: list[list[str]], candidate: Candidate) -> list[list[int]]:
    """Longest first, at most so many sentences, or tokens with padding, in a batch."""
    _, _, size, unit = candidate
    batches: list[list[int]] = []
    for i in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
        weight = 1 if unit == "examples" or not batches else len(sources[batches[-1][0]]) + 1
        if not batches or (len(batches[-1]) + 1) * weight > size:
            batches.append([])
        batches[-1].append(i)
    return batches


def _rate(job: dict[str, Any], sources: list[list[str]], candidate: Candidate) -> float:
    translator = _load(job, candidate)
    _translate(translator, sources[: job["warm_up"]], job["beam"], candidate)
    began = time.perf_counter()
    _translate(translator, sources, job["beam"], candidate)
    return len(sources) / (time.perf_counter() - began)


def _timed(job: dict[str, Any], sources: list[list[str]]) -> dict[str, Any]:
    began = time.perf_counter()
    translator, candidate, beam = _load(job, job["candidate"]), job["candidate"], job["beam"]
    start = time.perf_counter() - began
    _translate(translator, sources[: job["warm_up"]], beam, candidate)
    began = time.perf_counter()
    results = _translate(translator, sources, beam, candidate)
    seconds = time.perf_counter() - began
    Path(job["translations"]).write_text("".join(f"{' '.join(tokens)}\n" for tokens in results))
    return {"start_seconds": start, "seconds": seconds}


def _singly(job: dict[str, Any], sources: list[list[str]], threads: int) -> list[float]:
    """Seconds of each of the first sentences alone, by one worker of so many threads."""
    candidate = (1, threads, 1, "examples")
    translator, spent = _load(job, candidate), []
    for tokens in [*sources[: job["warm_up"]], *sources[: job["singles"]]]:
        began = time.perf_counter()
        _translate(translator, [tokens], job["beam"], candidate)
        spent.append(time.perf_counter() - began)
    return spent[job["warm_up"] :]


if __name__ == "__main__":
    main()
