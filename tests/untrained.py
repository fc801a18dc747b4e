"""Bundles of random weights, which are made in no time. Their translations say nothing, but say it again and again."""

import random
from pathlib import Path
from typing import Any

import torch

from attendo.bundle import Bundle, create_bundle, plain_json, weights_of
from attendo.models import recurrent
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import RecurrentConfig, TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.recipe import DataConfig, RunConfig, TokenizerConfig
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, CONTROLS, EOS, PAD, UNK, Tokenizer, train_tokenizer
from attendo.training.settings import TrainingConfig
from tests.numerals import ENGLISH, GERMAN

VOCAB_SIZE = 307


def tokenizer() -> Tokenizer:
    return train_tokenizer([" ".join(ENGLISH), " ".join(GERMAN)] * 3, kind="bpe", vocab_size=VOCAB_SIZE)


def untrained_model(vocab_size: int, *, seed: int = 3, **parts: Any) -> Transformer:
    """Decided enough for translations to differ and to end; what never comes has hardly a share."""
    torch.manual_seed(seed)
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 1, "d_model": 30, "d_ff": 23, "n_heads": 3}
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size, "tie_embeddings": "none"}
    config = TransformerConfig(**{**vocabularies, **sizes, **parts})
    model = build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.5 if parameter.dim() > 1 else 0.1))
        model.output.bias[EOS] += 2
        model.output.bias[len(CONTROLS) : len(CONTROLS) + 256] -= 4  # bytes are seldom text
        model.output.bias[[PAD, BOS, UNK]] = -30
    return model


def untrained_bundle(path: Path, *, seed: int = 3, max_length: int = 61, **parts: Any) -> Bundle:
    both = tokenizer()
    return _bundle(path, both, untrained_model(both.vocab_size, seed=seed, **parts), max_length=max_length)


def recurrent_bundle(path: Path, *, seed: int = 3, max_length: int = 61) -> Bundle:
    """Of a translator that is no Transformer."""
    both = tokenizer()
    torch.manual_seed(seed)
    config = RecurrentConfig(source_vocab_size=both.vocab_size, target_vocab_size=both.vocab_size, d_model=14)
    return _bundle(path, both, recurrent.build(config).eval(), max_length=max_length)


def _bundle(path: Path, both: Tokenizer, model: EncoderDecoder, *, max_length: int) -> Bundle:
    facts = {
        "pairs": {"read": 7, "kept": 5, "dropped_empty": 1, "dropped_long": 1, "held_out": 2},
        "validation": "held out",
        "fingerprint": "0",
        "parameters": {"total": 3},
        "machine": {"processor": "none", "threads": 1, "torch": "none"},
    }
    return create_bundle(
        path,
        config=RunConfig(
            data=DataConfig(source="train.en", target="train.de", languages=("en", "de"), max_length=max_length),
            tokenizer=TokenizerConfig(),
            model=model.config,
            training=TrainingConfig(steps=7),
        ),
        tokenizers=TokenizerPair(both, both),
        texts={"data.json": plain_json(facts)},
        weights=weights_of(model),
    )


def sentences(n: int, *, seed: int = 5) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(ENGLISH, k=generator.randint(1, 9))) + "." for _ in range(n)]
