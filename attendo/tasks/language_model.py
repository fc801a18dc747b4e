"""Text → a model that continues texts."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from attendo.bundle import Bundle
from attendo.data.loader import Pairs
from attendo.data.prepare import Prepared, open_prepared
from attendo.data.windows import Windows
from attendo.generator import Generator
from attendo.machine import DeviceName
from attendo.models.gpt import GPT
from attendo.plan import Speed, planned_passes
from attendo.recipe import COSTS, DataConfig, RecipeName, RunConfig
from attendo.reporting import Reporter
from attendo.tasks import text_plan
from attendo.tasks.task import Appraisal, Judge, Task, Verdict
from attendo.tasks.translate import inherit
from attendo.text.corpus import read_lines
from attendo.training.loop import Validation
from attendo.translator import exponential

VALID_SHARE, MOST_VALID = 0.1, 500_000  # of a file's characters
SAMPLE = 100  # pieces
FEW_PASSES = 3.0  # over a text that nothing needs to be left out of

# What GPT-2 is made of, and what Llama is.
GPT_PARTS = {
    "positions": "learned",
    "norm_place": "pre",
    "activation": "gelu-tanh",
    "embedding_scale": "one",
    "output_bias": False,
}
LLAMA_PARTS = {
    "positions": "rotary",
    "norm": "rmsnorm",
    "norm_place": "pre",
    "activation": "swiglu",
    "biases": False,
    "embedding_scale": "one",
    "output_bias": False,
}
# What learns fastest from a text that is read a few times: small batches and Muon, at the full rate for long.
LLAMA_TRAINING = {
    "optimizer": "muon",
    "batch_tokens": 1600,
    "schedule": "stable",
    "warmup_steps": 50,
    "decay_share": 0.4,
    "average": 0,
}


def choose(preset: RecipeName, *, max_length: int, tokens: int, start: Bundle | None) -> dict[str, Any]:
    """Model and training settings as plain values, for a text of so many tokens."""
    size = text_plan.size_for(preset, tokens)
    layers, training = text_plan.layers_for(size), text_plan.training_for(size, tokens)
    if start is not None:
        return {"task": "language-model", "model": {"kind": "gpt"}, "training": text_plan.adapting(training, start)}
    if preset == "llama":
        # The three matrices of SwiGLU have as many parameters as the two of another feed-forward network.
        sizes = {"n_key_heads": layers["n_heads"] // 2, "d_ff": round(layers["d_ff"] * 2 / 3 / 8) * 8}
        model = {**layers, **sizes, **LLAMA_PARTS}
        training |= {**LLAMA_TRAINING, "learning_rate": 0.64 / layers["d_model"]}
    else:
        model = {**layers, **GPT_PARTS, "n_positions": max_length}
    model |= {"kind": "gpt", "residual_dropout": _dropout(training["epochs"])}
    return {"task": "language-model", "model": model, "training": training}


def _dropout(passes: float) -> float:
    return 0.1 if passes > FEW_PASSES else 0.0


def check(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    chosen = choose(preset, max_length=text_plan.max_length_of(settings), tokens=1, start=start)
    text_plan.check(settings, start, chosen=chosen, fixed=text_plan.stand_ins())


def resolve(
    settings: Mapping[str, Any],
    preset: RecipeName,
    data: DataConfig,
    corpus: Prepared,
    start: Bundle | None,
    *,
    speed: Speed,
) -> RunConfig:
    tokens = corpus.facts["tokens_per_epoch"]["source"]
    chosen, given = choose(preset, max_length=data.max_length, tokens=tokens, start=start), settings.get("training", {})
    merged = {**chosen["training"], **given}
    batch_tokens = merged["batch_tokens"] * merged.get("accumulate", 1)
    cost = COSTS.get(text_plan.size_for(preset, tokens), 1.0)
    passes = None
    if start is None:
        passes = planned_passes(given, corpus.facts, speed, cost=cost, batch_tokens=batch_tokens)
    if passes is not None:
        chosen["model"]["residual_dropout"] = _dropout(passes)
    fixed = {"vocab_size": corpus.tokenizers.source.vocab_size}
    return text_plan.resolve(settings, data, corpus, start, chosen=chosen, fixed=fixed)


def windows_of(corpus: Prepared, config: RunConfig) -> Pairs:
    return Windows(corpus.store.source.ids, length=config.data.max_length, seed=config.seed)


class PerplexityJudge(Judge):
    """The loss on text that is held out, all of it, and a few words of the model's own."""

    def __init__(self, model: nn.Module, corpus: Prepared, config: RunConfig, device: torch.device) -> None:
        assert isinstance(model, GPT)
        self.generator = Generator(model, corpus.tokenizers.source, context=config.data.max_length, device=device)
        self.texts = [text for text, _ in corpus.valid if text]

    def validate(self, _: nn.Module) -> Validation:
        found = self.generator.score(self.texts)
        facts = {"loss": found.nats, "perplexity": exponential(found.nats)}
        return Validation(score=-found.nats, facts=facts)

    def verdict(self, reporter: Reporter) -> Verdict:
        found = self.generator.score(self.texts, reporter=reporter)
        perplexity = exponential(found.nats)
        reporter.say(f"It begins: {self.generator.generate('', max_length=SAMPLE)[0].text.strip()!r}")
        return Verdict(
            score=-found.nats,
            scores={
                "loss": found.nats,
                "perplexity": perplexity,
                "bits_per_character": found.bits_per_character,
                "table": [
                    ["perplexity", f"{perplexity:.3f}", "per piece"],
                    ["loss", f"{found.nats:.4f}", "nats per piece"],
                    ["bits per character", f"{found.bits_per_character:.4f}", ""],
                ],
            },
            summary={"perplexity": f"{perplexity:.3f} per piece", "loss": f"{found.nats:.4f}"},
            samples=[],
            words=f"Validation: loss {found.nats:.4f} nats per piece, perplexity {perplexity:.2f}, "
            f"{found.bits_per_character:.3f} bits per character ({{weights}}).",
        )


def appraise(
    bundle: Bundle, path: str, _columns: tuple[int, int] | None, device: DeviceName, reporter: Reporter
) -> Appraisal:
    """Perplexity of a file, which is one text."""
    text = "".join(f"{line}\n" for line in read_lines(path))
    found = Generator.from_bundle(bundle, device=device).score([text], reporter=reporter)
    return Appraisal(
        numbers=found.to_json(),
        lines=[
            f"perplexity = {exponential(found.nats):.3f} per piece",
            f"loss = {found.nats:.4f} nats per piece, of {found.n_pieces:,} pieces",
            f"bits per character = {found.bits_per_character:.4f}",
        ],
    )


TASK = Task(
    starts_from=("language-model",),
    check=check,
    prepare=partial(text_plan.prepare, unit="text", share=VALID_SHARE, most=MOST_VALID),
    reopen=open_prepared,
    resolve=resolve,
    examples=windows_of,
    inherit=inherit,
    announce=text_plan.announce,
    judge=PerplexityJudge,
    appraise=appraise,
)
