"""Transformers' generate with what `attendo export --to huggingface` wrote, on ready-made ids, sorted, 64 at a time."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM

from benchmarks.peers.inside.meter import padded
from benchmarks.peers.setting import BOS, EOS, PAD, UNK

BATCH = 64
EXTRA_LENGTH = 50


def generate(model: Any, sources: list[list[int]], beam: int) -> list[list[int]]:
    """In the order of the sources."""
    found: dict[int, list[int]] = {}
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    with torch.inference_mode():
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            input_ids = padded([[*sources[i], EOS] for i in rows], PAD)
            output = model.generate(
                input_ids=input_ids,
                attention_mask=(input_ids != PAD).long(),
                num_beams=beam,
                do_sample=False,
                early_stopping=beam > 1,
                max_new_tokens=len(sources[rows[0]]) + EXTRA_LENGTH,
                suppress_tokens=[PAD, BOS, UNK],
            )
            for i, ids in zip(rows, output.tolist(), strict=True):
                ids = ids[1:]
                found[i] = ids[: ids.index(EOS)] if EOS in ids else [id for id in ids if id != PAD]
    return [found[i] for i in range(len(sources))]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    sources = [list(map(int, line.split())) for line in Path(job["ids"]).read_text().splitlines()]
    began = time.perf_counter()
    model = AutoModelForSeq2SeqLM.from_pretrained(job["model"]).eval()
    start = time.perf_counter() - began
    if job["singles"]:
        spent = []
        for source in [*sources[: job["warm_up"]], *sources[: job["singles"]]]:
            began = time.perf_counter()
            generate(model, [source], job["beam"])
            spent.append(time.perf_counter() - began)
        Path(job["out"]).write_text(json.dumps({"single_seconds": spent[job["warm_up"] :]}))
        return
    generate(model, sources[: job["warm_up"]], job["beam"])
    began = time.perf_counter()
    results = generate(model, sources, job["beam"])
    seconds = time.perf_counter() - began
    Path(job["translations"]).write_text("".join(f"{' '.join(map(str, ids))}\n" for ids in results))
    Path(job["out"]).write_text(json.dumps({"start_seconds": start, "seconds": seconds}))


if __name__ == "__main__":
    main()
