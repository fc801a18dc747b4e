"""The whole way: a Marian of theirs is imported, trained further here, exported, and says the same there."""

from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sacrebleu
import torch
import transformers
from ctranslate2.converters import TransformersConverter

import attendo
from attendo.bundle import Bundle
from attendo.errors import ConfigError
from attendo.interop.ctranslate2 import export_ctranslate2
from attendo.sample.corpus import FEWEST_PAIRS, make_sample
from attendo.text.tokenizer import BOS
from tests.cli.command import attendo as command
from tests.interop import models

PAIRS = [(one.english, one.german) for one in make_sample(pairs=FEWEST_PAIRS).train[:11]]
SOURCES, TARGETS = [one for one, _ in PAIRS], [other for _, other in PAIRS]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("whole")
    sizes = {"d_model": 46, "encoder_ffn_dim": 53, "decoder_ffn_dim": 53}
    models.marian(folder / "theirs", lines=[*SOURCES, *TARGETS], by=0.0, **sizes)
    for name, lines in (("train.en", SOURCES * 4), ("train.de", TARGETS * 4), ("few.en", SOURCES), ("few.de", TARGETS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return attendo.import_model(folder / "theirs", out=folder / "bundle")


def tuned(start: Bundle, name: str, **training: Any) -> Bundle:
    folder = start.path.parent
    return attendo.train(
        folder / "train.en",
        folder / "train.de",
        settings={
            "adapt_from": str(start.path),
            "data": {"valid_source": str(folder / "few.en"), "valid_target": str(folder / "few.de")},
            "training": {"batch_tokens": 400, "label_smoothing": 0.0, **training},
        },
        out=folder / name,
    )


def translated(bundle: Path) -> list[str]:
    translator = attendo.load(bundle, engine="torch", device="cpu")
    return [one.text for one in translator.translate_many(SOURCES, beam=1, split=False, check=False, max_length=60)]


def bleu(texts: list[str]) -> float:
    return float(sacrebleu.corpus_bleu(texts, [TARGETS]).score)


def test_import_train_export_and_translate_there(imported):
    before = bleu(translated(imported.path))
    steps = {"steps": 220, "validate_every": 220, "checkpoint_every": 220}
    bundle = tuned(imported, "tuned", learning_rate=0.01, warmup_steps=10, **steps)
    ours = translated(bundle.path)
    assert bleu(ours) > before + 20
    assert bundle.tokenizers == imported.tokenizers
    assert bundle.config.tokenizer.kind == "imported"

    out = imported.path.parent / "exported"
    assert command("export", bundle.path, "--to", "huggingface", "--out", out, "--quiet").code == 0
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    with torch.inference_mode():
        ids = model.generate(
            **tokenizer(SOURCES, return_tensors="pt", padding=True), num_beams=1, do_sample=False, max_new_tokens=60
        )
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == ours

    # Decoding starts from zeros, as it did: CTranslate2's converter takes that for granted.
    assert not bundle.weights()["encoder.embedding.weight"][BOS].any()
    converted = out.with_name("converted")
    TransformersConverter(str(out)).convert(str(converted))
    for folder in (converted, export_ctranslate2(bundle, out.with_name("ctranslate2"))):
        found = ctranslate2.Translator(str(folder)).translate_batch(
            [tokenizer.convert_ids_to_tokens(row) for row in tokenizer(SOURCES).input_ids], beam_size=1
        )
        pieces = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
        assert tokenizer.batch_decode(pieces, skip_special_tokens=True) == ours


def test_adapters_alone_and_chosen_layers_alone_are_trained_too(imported):
    few = {"steps": 2, "validate_every": 2, "checkpoint_every": 2}
    adapters = tuned(imported, "adapters", lora_rank=3, **few)
    layers = tuned(imported, "layers", frozen_layers=1, **few)
    old = imported.weights()
    for bundle in (adapters, layers):
        new = bundle.weights()
        assert new.keys() == old.keys()
        moved = {name for name in new if not torch.equal(new[name], old[name])}
        assert moved
        assert bundle.interop() == imported.interop()
        small = bundle.copy(bundle.path.with_name(f"{bundle.path.name}-small"), new)
        assert small.interop() == imported.interop()
        assert not [name for name in moved if name.startswith("encoder.")] or bundle is adapters


def test_an_imported_tokenizer_has_no_merges_to_leave_out(imported):
    with pytest.raises(ConfigError, match="a tokenizer of kind imported has none"):
        tuned(imported, "dropped", bpe_dropout=0.1, steps=2)
