"""attendo's Python API, from text to text, in a process of its own: all at once, or one sentence at a time."""

import json
import sys
import time
from pathlib import Path

import attendo


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    texts = Path(job["texts"]).read_text(encoding="utf-8").splitlines()
    # The rules of all others here: the search ends with the `beam`-th hypothesis, scores are averages.
    options = attendo.SearchOptions(beam=job["beam"], stopping="first", length_penalty="average")
    began = time.perf_counter()
    translator = attendo.load(job["bundle"], engine=job["engine"], precision=job["precision"], device="cpu")
    start = time.perf_counter() - began
    if job["singles"]:
        spent = []
        for text in [*texts[: job["warm_up"]], *texts[: job["singles"]]]:
            began = time.perf_counter()
            translator.translate(text, options=options)
            spent.append(time.perf_counter() - began)
        Path(job["out"]).write_text(json.dumps({"single_seconds": spent[job["warm_up"] :]}))
        return
    translator.translate_many(texts[: job["warm_up"]], options=options)
    began = time.perf_counter()
    translations = translator.translate_many(texts, options=options)
    seconds = time.perf_counter() - began
    lines = [translation.text for translation in translations]
    Path(job["translations"]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path(job["out"]).write_text(json.dumps({"start_seconds": start, "seconds": seconds}))


if __name__ == "__main__":
    main()
