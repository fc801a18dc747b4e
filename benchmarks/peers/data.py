"""Multi30K English→German, tokenised once by attendo for everybody.

A token of a peer is the id in digits, so that nothing depends on how it reads characters. In OUT/data:

    train.source, .target      29,000 pairs as ids
    probe.source, .target      500 of them, on which the loss is measured
    few.source, .target        50 validation pairs
    vocabulary.txt             four control pieces in JoeyNMT's order, then the ids: 6,000 lines
    pieces.txt                 the ids alone
    train.en, .de and few.en, .de  the text itself, for attendo; probe likewise
    facts.json
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from attendo.text.corpus import read_lines
from attendo.text.tokenizer import CONTROLS, Tokenizer, train_tokenizer
from benchmarks.peers.setting import Setting

PROBE_PAIRS = 500
FEW_PAIRS = 50


@dataclass(frozen=True)
class Data:
    """The folder, and how many sentences make a batch of the setting's size."""

    folder: Path
    sentences: int

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text(encoding="utf-8").splitlines()


def prepare(corpus: Path, out: Path) -> Data:
    """What is in OUT/data already, or made there."""
    folder, setting = out / "data", Setting()
    facts = folder / "facts.json"
    if not facts.exists():
        folder.mkdir(parents=True, exist_ok=True)
        train = list(zip(*(list(read_lines(str(corpus / f"train.{side}.gz"))) for side in ("en", "de")), strict=True))
        few = list(
            zip(*(list(read_lines(str(corpus / f"val.{side}.gz")))[:FEW_PAIRS] for side in ("en", "de")), strict=True)
        )
        tokenizer = train_tokenizer(
            (text for pair in train for text in pair), kind="bpe", vocab_size=setting.vocab_size
        )
        (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        lengths = _write(folder, "train", train, tokenizer)
        _write(folder, "few", few, tokenizer)
        _write(folder, "probe", random.Random(setting.seed).sample(train, PROBE_PAIRS), tokenizer)
        ids = [str(id) for id in range(len(CONTROLS), tokenizer.vocab_size)]
        _lines(folder / "vocabulary.txt", ["<unk>", "<pad>", "<s>", "</s>", *ids])
        _lines(folder / "pieces.txt", ids)
        longer = [max(pair) + 1 for pair in lengths]
        facts.write_text(
            json.dumps(
                {
                    "pairs": len(train),
                    "vocab_size": tokenizer.vocab_size,
                    "source_tokens": sum(source + 1 for source, _ in lengths),
                    "target_tokens": sum(target + 1 for _, target in lengths),
                    "sentences_per_batch": round(setting.batch_tokens / (sum(longer) / len(longer))),
                },
                indent=1,
            )
        )
    return Data(folder, json.loads(facts.read_text())["sentences_per_batch"])


def _write(folder: Path, name: str, pairs: list[tuple[str, str]], tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Text and ids of both sides; how many ids each side of each pair has."""
    lengths = []
    for number, (language, side) in enumerate((("en", "source"), ("de", "target"))):
        texts = [pair[number] for pair in pairs]
        ids = tokenizer.encode_batch(texts)
        _lines(folder / f"{name}.{language}", texts)
        _lines(folder / f"{name}.{side}", [" ".join(map(str, row)) for row in ids])
        lengths.append([len(row) for row in ids])
    return list(zip(*lengths, strict=True))


def _lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
