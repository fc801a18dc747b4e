"""Text → a model that mends spoiled text, from which any text-to-text model can start."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from attendo.bundle import Bundle
from attendo.config import to_dict
from attendo.data.batch import Batch
from attendo.data.batching import batch_starts
from attendo.data.denoising import NoisyPairs
from attendo.data.loader import Pairs
from attendo.data.masking import side_of
from attendo.data.noise_settings import SENTINELS, BartNoise, SpanNoise
from attendo.data.prepare import Prepared, open_prepared
from attendo.data.store import in_parts
from attendo.engines.torch_engine import target_log_probs
from attendo.errors import ConfigError
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.presets import sizes
from attendo.nn.masks import padding_mask
from attendo.plan import UNKNOWN_VOCABULARY, Speed
from attendo.recipe import DataConfig, RecipeName, RunConfig
from attendo.reporting import Reporter
from attendo.tasks import text_plan
from attendo.tasks.masked import MOST_VALID, VALID_SEED, VALID_SHARE
from attendo.tasks.task import Judge, Task, Verdict
from attendo.tasks.translate import inherit
from attendo.training.loop import Validation
from attendo.translator import exponential

SPARE_POSITIONS = 64  # for translations, which may be longer than their source
BATCH_TOKENS = 4096  # positions in a validation at once

# T5 leaves scores unscaled and begins with smaller weights instead, which is the same; here they are scaled.
T5_PARTS = {"positions": "t5", "norm": "rmsnorm", "norm_place": "pre", "activation": "relu"}
BART_PARTS = {
    "positions": "learned",
    "norm_place": "pre",
    "activation": "gelu",
    "embedding_norm": True,
    "embedding_scale": "one",
}


def choose(preset: RecipeName, style: str, *, max_length: int, tokens: int, start: Bundle | None) -> dict[str, Any]:
    """Model, noise and training settings as plain values, for a text of so many tokens."""
    if preset == "llama":
        raise ConfigError("the preset 'llama' is a language model, and this is another. Choose another, or auto.")
    size = text_plan.size_for(preset, tokens)
    training = text_plan.training_for(size, tokens)
    if start is not None:
        assert start.config.noise is not None
        kept = {"task": "denoise", "model": {"kind": start.config.model.kind}, "noise": to_dict(start.config.noise)}
        return {**kept, "training": text_plan.adapting(training, start)}
    shared = {"task": "denoise", "noise": {"kind": style}}
    parts = T5_PARTS if style == "t5" else {**BART_PARTS, "n_positions": max_length + SPARE_POSITIONS}
    model = {"kind": "transformer", **sizes(size), **parts, "residual_dropout": 0.1, "tie_embeddings": "all"}
    return {**shared, "model": model, "training": training}


def check(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    style = _style(settings, start)
    if start is not None and start.config.noise is not None and start.config.noise.kind != style:
        raise ConfigError(f"noise.kind = {style!r}: {start.path} was made for {start.config.noise.kind}. Leave it out.")
    chosen = choose(preset, style, max_length=text_plan.max_length_of(settings), tokens=1, start=start)
    config = text_plan.check(settings, start, chosen=chosen, fixed=_fixed(UNKNOWN_VOCABULARY, style))
    if not isinstance(config.noise, SpanNoise | BartNoise):
        raise ConfigError("noise.kind: denoising knows t5 and bart. Choose one with --style.")


def resolve(
    settings: Mapping[str, Any],
    preset: RecipeName,
    data: DataConfig,
    corpus: Prepared,
    start: Bundle | None,
    *,
    speed: Speed,  # noqa: ARG001 (the time decides nothing here)
) -> RunConfig:
    tokens = corpus.facts["tokens_per_epoch"]["source"]
    style = _style(settings, start)
    chosen = choose(preset, style, max_length=data.max_length, tokens=tokens, start=start)
    fixed = _fixed(corpus.tokenizers.source.vocab_size, style)
    return text_plan.resolve(settings, data, corpus, start, chosen=chosen, fixed=fixed)


def pairs_of(corpus: Prepared, config: RunConfig) -> Pairs:
    assert isinstance(config.noise, SpanNoise | BartNoise)
    return NoisyPairs(
        corpus.store.source,
        config.noise,
        first_extra=corpus.tokenizers.source.vocab_size,
        max_length=config.data.max_length,
        seed=config.seed,
    )


class MendingJudge(Judge):
    """The loss on what was spoiled of text that is held out, always in the same way."""

    def __init__(self, model: nn.Module, corpus: Prepared, config: RunConfig, device: torch.device) -> None:
        assert isinstance(model, EncoderDecoder) and isinstance(config.noise, SpanNoise | BartNoise)
        self.model, self.device = model, device
        tokenizer, longest = corpus.tokenizers.source, config.data.max_length
        rows = tokenizer.encode_batch([text for text, _ in corpus.valid])
        self.pairs = NoisyPairs(
            side_of(in_parts(rows, longest)),
            config.noise,
            first_extra=tokenizer.vocab_size,
            max_length=longest,
            seed=VALID_SEED,
        )

    def validate(self, _: nn.Module) -> Validation:
        nats, _count = self._nats()
        facts = {"loss": nats, "perplexity": exponential(nats)}
        return Validation(score=-nats, facts=facts)

    def verdict(self, reporter: Reporter) -> Verdict:  # noqa: ARG002
        nats, count = self._nats()
        perplexity = exponential(nats)
        return Verdict(
            score=-nats,
            scores={
                "loss": nats,
                "perplexity": perplexity,
                "table": [["loss", f"{nats:.4f}", f"nats per target piece, of {count:,}"]],
            },
            summary={"loss": f"{nats:.4f} nats per target piece", "perplexity": f"{perplexity:.3f}"},
            samples=[],
            words=f"Validation: loss {nats:.4f} nats per target piece, perplexity {perplexity:.2f} ({{weights}}).",
        )

    def _nats(self) -> tuple[float, int]:
        """Per target piece, EOS included, and of how many."""
        sources, targets = self.pairs.lengths(0)
        order = np.argsort(targets, kind="stable")
        starts = [*batch_starts(sources[order], targets[order], batch_tokens=BATCH_TOKENS).tolist(), len(order)]
        total, count = 0.0, 0
        with torch.inference_mode():
            for start, stop in pairwise(starts):
                batch: Batch = self.pairs.batch(order[start:stop], 0).to(self.device)
                hidden_BTD = self.model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
                real_BT = padding_mask(batch.target_lengths_B, batch.target_out_BT.shape[1])[:, 0, 0]
                found_N = target_log_probs(self.model.output, hidden_BTD[real_BT], batch.target_out_BT[real_BT])
                total -= found_N.double().sum().item()
                count += len(found_N)
        return total / count, count


def _style(settings: Mapping[str, Any], start: Bundle | None) -> str:
    """The kind of noise that was asked for, or that of the bundle to start from, or T5's."""
    noise = settings.get("noise")
    if isinstance(noise, Mapping) and "kind" in noise:
        return str(noise["kind"])
    return "t5" if start is None or start.config.noise is None else start.config.noise.kind


def _fixed(vocab_size: int, style: str) -> dict[str, int]:
    """The sizes of the vocabularies: the tokenizer's pieces, and the sentinels of T5 or the mask of BART."""
    extra = SENTINELS if style == "t5" else 1
    return {"source_vocab_size": vocab_size + extra, "target_vocab_size": vocab_size + extra, "n_extra": extra}


TASK = Task(
    starts_from=("denoise",),
    check=check,
    prepare=partial(text_plan.prepare, unit="line", share=VALID_SHARE, most=MOST_VALID),
    reopen=open_prepared,
    resolve=resolve,
    examples=pairs_of,
    inherit=inherit,
    announce=text_plan.announce,
    judge=MendingJudge,
)
