"""Text → a model that tells what is behind a mask."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from attendo.bundle import Bundle
from attendo.config import merge, to_dict
from attendo.data.loader import Pairs
from attendo.data.masking import MaskedRows, side_of
from attendo.data.noise_settings import MaskNoise
from attendo.data.prepare import Prepared, open_prepared
from attendo.data.store import in_parts
from attendo.errors import ConfigError
from attendo.filler import MaskScore, score_masked
from attendo.machine import DeviceName, ready
from attendo.models.bert import Bert
from attendo.models.settings import BertConfig
from attendo.plan import Speed
from attendo.recipe import DataConfig, RecipeName, RunConfig
from attendo.reporting import Reporter
from attendo.tasks import text_plan
from attendo.tasks.task import Appraisal, Judge, Task, Verdict
from attendo.tasks.translate import inherit
from attendo.text.corpus import read_lines, trim
from attendo.text.tokenizer import Tokenizer
from attendo.training.loop import Validation
from attendo.translator import exponential

VALID_SHARE, MOST_VALID = 0.02, 1000  # of a file's lines
CONTROLS = 3  # of a row: one before, one after each of two segments
VALID_SEED = 0  # what is hidden in a validation is always the same

# With rotary positions and Muon it begins to look at neighbours after some hundred steps; with learned positions, or
# with Adam, it guesses frequent pieces for thousands of them.
PARTS = {"positions": "rotary", "norm_place": "pre", "activation": "gelu"}


def choose(preset: RecipeName, *, tokens: int, start: Bundle | None) -> dict[str, Any]:
    """Model and training settings as plain values, for a text of so many tokens."""
    if preset == "llama":
        raise ConfigError("the preset 'llama' is a language model, and this is a masked one. Choose another, or auto.")
    size = text_plan.size_for(preset, tokens)
    training = text_plan.training_for(size, tokens)
    if start is not None:
        assert start.config.noise is not None
        kept = {"model": {"kind": "bert"}, "noise": to_dict(start.config.noise)}
        return {"task": "masked-language-model", **kept, "training": text_plan.adapting(training, start)}
    model = {"kind": "bert", **text_plan.layers_for(size), **PARTS}
    training["optimizer"] = "muon"
    return {"task": "masked-language-model", "noise": {"kind": "mask"}, "model": model, "training": training}


def check(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    chosen = choose(preset, tokens=1, start=start)
    config = text_plan.check(settings, start, chosen=chosen, fixed=text_plan.stand_ins())
    if not isinstance(config.noise, MaskNoise):
        raise ConfigError("noise.kind: a masked language model learns from masks. Leave it out, or use --task denoise.")
    if isinstance(config.model, BertConfig) and not config.model.mask_head:
        raise ConfigError(
            "model.mask_head = False: the run starts from an encoder alone, which tells nothing of what is hidden. "
            "Make a classifier of it with --task classify."
        )
    before = None if start is None else start.config.noise
    if isinstance(before, MaskNoise) and before.next_sentence != config.noise.next_sentence:
        raise ConfigError(
            f"noise.next_sentence = {config.noise.next_sentence}: the run keeps the model it starts from, where it "
            f"is {before.next_sentence}. Leave it out."
        )


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
    chosen = choose(preset, tokens=tokens, start=start)
    noise = merge(chosen["noise"], settings.get("noise") or {})
    vocab_size = corpus.tokenizers.source.vocab_size + 1
    fixed = {"vocab_size": vocab_size, "next_sentence": bool(noise.get("next_sentence"))}
    return text_plan.resolve(settings, data, corpus, start, chosen=chosen, fixed=fixed)


def rows_of(corpus: Prepared, config: RunConfig) -> Pairs:
    assert isinstance(config.noise, MaskNoise)
    rows = MaskedRows(
        corpus.store.source,
        corpus.tokenizers.source,
        config.noise,
        max_length=config.data.max_length,
        seed=config.seed,
    )
    rows.check()
    return rows


class MaskJudge(Judge):
    """The loss on what is hidden of text that is held out."""

    def __init__(self, model: nn.Module, corpus: Prepared, config: RunConfig, device: torch.device) -> None:
        assert isinstance(model, Bert) and isinstance(config.noise, MaskNoise)
        self.model, self.device = model, device
        lines = [text for text, _ in corpus.valid]
        self.rows = _rows(corpus.tokenizers.source, config.noise, lines, config.data.max_length)

    def validate(self, _: nn.Module) -> Validation:
        found = self._score()
        return Validation(score=-found.hidden.nats, facts=_numbers(found))

    def in_words(self, entry: Mapping[str, Any]) -> str:
        follows = f", {entry['follows_accuracy']:.1%} of what follows" if "follows_accuracy" in entry else ""
        return (
            f"Validation at step {entry['step']:,}: loss {entry['loss']:.4f}, {entry['accuracy']:.1%} of the hidden "
            f"pieces told{follows}{', the best so far' if entry['best'] else ''}"
        )

    def verdict(self, reporter: Reporter) -> Verdict:  # noqa: ARG002
        found = self._score()
        hidden, follows = found.hidden, found.follows
        table = [
            ["loss", f"{hidden.nats:.4f}", "nats per hidden piece"],
            ["hidden pieces told", f"{hidden.accuracy:.2%}", f"of {hidden.count:,}"],
        ]
        if follows is not None:
            table.append(["told whether a text follows", f"{follows.accuracy:.2%}", f"of {follows.count:,} rows"])
        return Verdict(
            score=-hidden.nats,
            scores={**_numbers(found), "table": table},
            summary={name: f"{value} {what}" for name, value, what in table},
            samples=[],
            words=f"Validation: loss {hidden.nats:.4f} nats per hidden piece, {hidden.accuracy:.1%} of them told"
            f"{f', {follows.accuracy:.1%} of what follows' if follows else ''} ({{weights}}).",
        )

    def _score(self) -> MaskScore:
        return score_masked(self.model, self.rows, device=self.device)


def appraise(
    bundle: Bundle,
    path: str,
    _columns: tuple[int, int] | None,
    device: DeviceName,
    reporter: Reporter,  # noqa: ARG001
) -> Appraisal:
    """The loss on what is hidden of the lines of a file."""
    model, noise = bundle.model(), bundle.config.noise
    assert isinstance(model, Bert) and isinstance(noise, MaskNoise)
    rows = _rows(bundle.tokenizers.source, noise, read_lines(path), bundle.config.data.max_length)
    found = score_masked(model, rows, device=ready(device))
    lines = [
        f"loss = {found.hidden.nats:.4f} nats per hidden piece",
        f"accuracy = {found.hidden.accuracy:.2%} of {found.hidden.count:,} hidden pieces",
    ]
    if found.follows is not None:
        lines.append(
            f"follows = {found.follows.accuracy:.2%} of {found.follows.count:,} rows told, "
            f"loss {found.follows.nats:.4f}"
        )
    return Appraisal(numbers={**_numbers(found), "hidden": found.hidden.count}, lines=lines)


def _numbers(found: MaskScore) -> dict[str, Any]:
    numbers = {
        "loss": found.hidden.nats,
        "perplexity": exponential(found.hidden.nats),
        "accuracy": found.hidden.accuracy,
    }
    if found.follows is None:
        return numbers
    return {**numbers, "follows_loss": found.follows.nats, "follows_accuracy": found.follows.accuracy}


def _rows(tokenizer: Tokenizer, noise: MaskNoise, lines: Iterable[str], max_length: int) -> MaskedRows:
    """Lines with gaps, always the same."""
    rows = tokenizer.encode_batch([trim(line) for line in lines if line.strip()])
    side = side_of(in_parts(rows, max_length - CONTROLS))
    return MaskedRows(side, tokenizer, noise, max_length=max_length, seed=VALID_SEED)


TASK = Task(
    starts_from=("masked-language-model",),
    check=check,
    prepare=partial(text_plan.prepare, unit="line", share=VALID_SHARE, most=MOST_VALID, controls=CONTROLS),
    reopen=open_prepared,
    resolve=resolve,
    examples=rows_of,
    inherit=inherit,
    begin=text_plan.begin,
    announce=text_plan.announce,
    judge=MaskJudge,
    appraise=appraise,
)
