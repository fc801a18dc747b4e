"""Whole folders of Hugging Face: a tiny model with random weights, and a tokenizer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import transformers

from tests.interop import tokenizers as made
from tests.interop.foreign import make_endings_likely, randomise

SIZES = {
    "d_model": 26,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 17,
    "decoder_ffn_dim": 17,
    "forced_eos_token_id": None,
    "dropout": 0.0,
}


def marian(folder: Path, *, lines: Sequence[str] | None = None, by: float = 0.5, **options: Any) -> tuple[Any, Any]:
    """(model, tokenizer), both saved; the tokenizer knows the pieces of some lines, if they are given."""
    tokenizer = made.marian(folder, **({} if lines is None else {"lines": lines, "vocab_size": 300}))
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer.encoder),
        decoder_start_token_id=tokenizer.pad_token_id,
        max_position_embeddings=97,
        scale_embedding=True,
        **ids,
        **{**SIZES, **options},
    )
    return _saved(transformers.MarianMTModel(config), folder, by), tokenizer


def m2m100(folder: Path) -> tuple[Any, Any]:
    tokenizer = made.m2m100(folder)
    config = transformers.M2M100Config(vocab_size=len(tokenizer.encoder) + 108, max_position_embeddings=97, **SIZES)
    return _saved(transformers.M2M100ForConditionalGeneration(config), folder), tokenizer


def bart(folder: Path) -> tuple[Any, Any]:
    tokenizer = made.byte_level(folder, "BartTokenizer", ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    config = transformers.BartConfig(vocab_size=len(tokenizer), max_position_embeddings=97, **SIZES)
    return _saved(transformers.BartForConditionalGeneration(config), folder), tokenizer


def nllb(folder: Path) -> tuple[Any, Any]:
    """M2M100 with a tokenizer.json, in which languages are special pieces."""
    tokenizer = made.from_sentencepiece(folder, "NllbTokenizer", "sentencepiece.bpe.model", model_type="bpe")
    tokenizer.add_tokens(["eng_Latn", "deu_Latn"], special_tokens=True)
    tokenizer.src_lang = "eng_Latn"
    config = transformers.M2M100Config(vocab_size=len(tokenizer) + 3, max_position_embeddings=97, **SIZES)
    return _alone(transformers.M2M100ForConditionalGeneration(config), tokenizer, folder)


def mbart50(folder: Path) -> tuple[Any, Any]:
    tokenizer = made.from_sentencepiece(folder, "MBart50Tokenizer", "sentencepiece.bpe.model")
    tokenizer.src_lang = "en_XX"
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=97, decoder_start_token_id=2, **SIZES
    )
    return _alone(transformers.MBartForConditionalGeneration(config), tokenizer, folder)


def mbart25(folder: Path) -> tuple[Any, Any]:
    """Decoding starts with a language, which config.json does not name."""
    tokenizer = made.from_sentencepiece(folder, "MBartTokenizer", "sentencepiece.bpe.model")
    tokenizer.src_lang = "en_XX"
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=97, decoder_start_token_id=None, **SIZES
    )
    return _alone(transformers.MBartForConditionalGeneration(config), tokenizer, folder)


def pegasus(folder: Path) -> tuple[Any, Any]:
    tokenizer = made.from_sentencepiece(folder, "PegasusTokenizer", "spiece.model", **made.T5)
    config = transformers.PegasusConfig(vocab_size=len(tokenizer), max_position_embeddings=97, **SIZES)
    return _alone(transformers.PegasusForConditionalGeneration(config), tokenizer, folder)


def t5(folder: Path) -> tuple[Any, Any]:
    tokenizer = made.from_sentencepiece(folder, "T5Tokenizer", "spiece.model", **made.T5)
    config = transformers.T5Config(
        vocab_size=len(tokenizer) + 3, d_model=23, d_kv=5, d_ff=17, num_layers=1, num_heads=3, decoder_start_token_id=0
    )
    return _alone(transformers.T5ForConditionalGeneration(config), tokenizer, folder)


def with_endings(make: Callable[[Path], tuple[Any, Any]], folder: Path) -> tuple[Any, Any]:
    """One of these, whose translations end after some steps, so that a beam's are of different lengths."""
    model, tokenizer = make(folder)
    make_endings_likely(model, by=0.9)
    model.save_pretrained(folder)
    return model, tokenizer


def _alone(model: Any, tokenizer: Any, folder: Path) -> tuple[Any, Any]:
    """With a tokenizer.json instead of the files it was made from."""
    for path in folder.iterdir():
        path.unlink()
    tokenizer.save_pretrained(folder)
    return _saved(model, folder), tokenizer


def _saved(model: Any, folder: Path, by: float = 0.5) -> Any:
    randomise(model, by=by)
    model.save_pretrained(folder)
    return model.eval()
