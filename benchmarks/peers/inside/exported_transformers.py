"""What `attendo export --to huggingface` wrote, translated with by transformers alone.

python -m benchmarks.peers.inside.exported_transformers JOB.json
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

BATCH = 50


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    source = AutoTokenizer.from_pretrained(job["model"])
    own = Path(job["model"]) / "target"  # where the target has a tokenizer of its own
    target = AutoTokenizer.from_pretrained(own) if own.exists() else source
    eos = target.eos_token_id
    model = AutoModelForSeq2SeqLM.from_pretrained(job["model"])
    texts: list[str] = []
    pieces: list[list[str]] = []
    with torch.inference_mode():
        for begin in range(0, len(job["texts"]), BATCH):
            batch = source(job["texts"][begin : begin + BATCH], return_tensors="pt", padding=True)
            found = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                num_beams=1,
                do_sample=False,
                max_new_tokens=job["longest"],
            )
            texts += target.batch_decode(found, skip_special_tokens=True)
            for row in found[:, 1:].tolist():  # the first is what decoding starts from
                pieces.append(target.convert_ids_to_tokens([*row, eos][: [*row, eos].index(eos)]))
    Path(job["out"]).write_text(json.dumps({"texts": texts, "pieces": pieces}))


if __name__ == "__main__":
    main()
