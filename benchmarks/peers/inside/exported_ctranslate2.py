"""What `attendo export --to ctranslate2` wrote, translated with by ctranslate2 and tokenizers alone.

python -m benchmarks.peers.inside.exported_ctranslate2 JOB.json
"""

import json
import sys
from pathlib import Path

import ctranslate2
import tokenizers


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    source, target = (
        tokenizers.Tokenizer.from_file(str(Path(job["model"]) / name))
        for name in job["tokenizers"]  # of source and target
    )
    found = ctranslate2.Translator(job["model"], compute_type=job["precision"]).translate_batch(
        [one.tokens for one in source.encode_batch(job["texts"])],
        beam_size=1,
        max_batch_size=32,
        max_input_length=0,
        max_decoding_length=job["longest"],
    )
    ids = target.get_vocab()
    pieces = [one.hypotheses[0] for one in found]
    texts = [target.decode([ids[piece] for piece in one]) for one in pieces]
    Path(job["out"]).write_text(json.dumps({"texts": texts, "pieces": pieces}))


if __name__ == "__main__":
    main()
