"""What `attendo export --to onnx` wrote, translated with by onnxruntime, numpy and tokenizers alone.

python -m benchmarks.peers.inside.exported_onnxruntime JOB.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tokenizers

BATCH = 50


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["model"])
    about = json.loads((folder / "config.json").read_text())
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    source, target = (tokenizers.Tokenizer.from_file(str(folder / name)) for name in job["tokenizers"])
    ids = [one.ids for one in source.encode_batch(job["texts"])]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    found: dict[int, list[int]] = {}
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        several = _greedy(about, encoder, decoder, [ids[i] for i in rows], job["longest"])
        found |= dict(zip(rows, several, strict=True))
    translations = [found[i] for i in range(len(ids))]
    pieces = [[target.id_to_token(id) for id in one] for one in translations]
    Path(job["out"]).write_text(json.dumps({"texts": target.decode_batch(translations), "pieces": pieces}))


def _greedy(
    about: dict[str, Any], encoder: Any, decoder: Any, sources: list[list[int]], longest: int
) -> list[list[int]]:
    """The ids of each translation, without EOS."""
    pad, bos, eos = (about["ids"][name] for name in ("pad", "bos", "eos"))
    width = max(map(len, sources)) + 1
    source = np.array([[*one, eos] + [pad] * (width - len(one) - 1) for one in sources])
    mask = (source != pad).astype(np.int64)
    names = {file: graph["outputs"] for file, graph in about["graphs"].items()}
    memory = dict(zip(names["encoder.onnx"], encoder.run(None, {"source": source, "source_mask": mask}), strict=True))
    past = {
        one.name: np.zeros((len(source), one.shape[1], 0, one.shape[3]), np.float32)
        for one in decoder.get_inputs()
        if one.name.startswith("past_")
    }
    last, found = np.full((len(source), 1), bos), np.zeros((len(source), 0), np.int64)
    while found.shape[1] < longest and not (found == eos).any(axis=1).all():
        logits, *present = decoder.run(None, {"ids": last, "source_mask": mask, **memory, **past})
        past = dict(zip(past, present, strict=True))
        logits[:, :, about["never"]] = -np.inf
        last = logits.argmax(-1)
        found = np.concatenate([found, last], axis=1)
    rows = [[*row, eos] for row in found.tolist()]
    return [row[: row.index(eos)] for row in rows]


if __name__ == "__main__":
    main()
