"""What a task is: all that a run does in a way of its own, as plain functions.

A run reads its files, builds a model, trains and judges it, and keeps it in a bundle. What it asks in between is here,
in the order in which it asks; `choice.task_of` gives the answers of each task.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from attendo.bundle import Bundle
from attendo.data.loader import Pairs
from attendo.machine import DeviceName
from attendo.plan import Speed
from attendo.recipe import DataConfig, RecipeName, RunConfig, TaskName, TokenizerConfig
from attendo.reporting import Reporter
from attendo.text.pair import TokenizerPair
from attendo.training.loop import Validation


class Corpus(Protocol):
    """Data that are ready for training, in a folder of the cache.

    facts: what is told of them in `data.json`. `fingerprint` and `validation_fingerprint` say whether they are still
    the same, `in_words` are rows of the card.
    """

    @property
    def folder(self) -> Path: ...

    @property
    def facts(self) -> dict[str, Any]: ...

    @property
    def tokenizers(self) -> TokenizerPair | None: ...


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How good a trained model is.

    score: as that of a validation, but of the model as people use it, so that a score which was the highest of many by
    chance is not counted again. error: by how much chance may have moved it, where that is known. scores: for
    `scores.json`; `table` in it are the rows of the card. summary and samples: for the report. words: what is said when
    all is done, with the name of the weights where it has `{weights}`.
    """

    score: float
    scores: dict[str, Any]
    summary: Mapping[str, str]
    words: str
    samples: list[dict[str, Any]]
    error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Appraisal:
    """What a model scored on a test set: numbers, lines for people, and a picture (SVG) where there is one."""

    numbers: dict[str, Any]
    lines: list[str]
    picture: str | None = None


class Judge(Protocol):
    """How good a model is, whose weights change meanwhile, on data it never sees."""

    def validate(self, model: nn.Module, /) -> Validation:
        """What the training loop asks for: a score, higher is better, and the facts for the log."""

    def in_words(self, entry: Mapping[str, Any]) -> str:
        """A validation's entry in the log, for people."""
        return (
            f"Validation at step {entry['step']:,}: loss {entry['loss']:.4f}, perplexity {entry['perplexity']:.2f}"
            f"{', the best so far' if entry['best'] else ''}"
        )

    def verdict(self, reporter: Reporter) -> Verdict:
        """In the end, with the weights that are kept."""

    def more(self, bundle: Bundle, reporter: Reporter) -> dict[str, Any]:  # noqa: ARG002
        """Scores that need the whole bundle."""
        return {}


# Trains a model with these settings on this corpus into a new folder, or goes on where that was interrupted.
Teach = Callable[[Mapping[str, Any], DataConfig, Any, Path], Bundle]


class Prepare(Protocol):
    def __call__(
        self, data: DataConfig, tokenizer: TokenizerConfig, start: Bundle | None, cache: Path, reporter: Reporter, /
    ) -> Corpus: ...


class Enrich(Protocol):
    def __call__(self, corpus: Any, config: RunConfig, beside: Path, teach: Teach, reporter: Reporter, /) -> Corpus: ...


class Resolve(Protocol):
    def __call__(
        self,
        settings: Mapping[str, Any],
        preset: RecipeName,
        data: DataConfig,
        corpus: Any,
        start: Bundle | None,
        /,
        *,
        speed: Speed,
    ) -> RunConfig: ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kind of training.

    starts_from: the tasks whose bundles `--from` takes.
    check: finds mistakes in the settings, before any work is done.
    settle: the settings of the data with what the files themselves tell.
    prepare: reads the files, or finds in the cache what it has made of them before.
    reopen: what `prepare` has left in a folder, or None where there is no whole one.
    resolve: the whole config, once the data are known.
    examples: what batches are made of: a pure function of seed, epoch and index.
    inherit: takes over the weights of the bundle that the run starts from, as far as they fit the data.
    begin: gives a new model what the data tell before any training.
    announce: the data and the model, in words.
    enrich: the data with what models trained on them add, if the settings say so; beside the run's folder.
    warn: what makes the bundle to start from a doubtful choice, in words; None where nothing does.
    judge: what validates.
    appraise: how good a bundle is on a test file, of which the columns may be given. None: `attendo evaluate` does that
        itself, with all that can be asked of a translator.
    units: what the speed of training is told in.
    """

    starts_from: tuple[TaskName, ...]
    check: Callable[[Mapping[str, Any], RecipeName, Bundle | None], None]
    prepare: Prepare
    reopen: Callable[[Path], Corpus | None]
    resolve: Resolve
    examples: Callable[[Any, RunConfig], Pairs]
    inherit: Callable[[nn.Module, Bundle, Any], None]
    announce: Callable[[RunConfig, Mapping[str, Any]], str]
    judge: Callable[[nn.Module, Any, RunConfig, torch.device], Judge]
    settle: Callable[[DataConfig, Bundle | None], DataConfig] = lambda data, _: data
    begin: Callable[[nn.Module, Any, RunConfig], None] = lambda *_: None
    enrich: Enrich = lambda corpus, *_: corpus
    warn: Callable[[Any, Bundle], str | None] = lambda *_: None
    appraise: Callable[[Bundle, str, tuple[int, int] | None, DeviceName, Reporter], Appraisal] | None = None
    units: str = "tokens"
