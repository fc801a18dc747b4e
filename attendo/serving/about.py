"""GET /v1/models and /v1/run: what is served, and how it was trained."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.responses import Response

from attendo.bundle import Bundle, open_bundle
from attendo.config import to_dict
from attendo.evaluation.report import curve
from attendo.serving import wire
from attendo.serving.desk import Desk
from attendo.serving.limits import Refusal
from attendo.serving.v1 import PROBLEMS

MOST_POINTS = 500  # of a curve
CURVES = {
    "training_loss": ("progress", "loss"),
    "validation_loss": ("validation", "loss"),
    "bleu": ("validation", "bleu"),
    "learning_rate": ("progress", "lr"),
}


ModelName = Annotated[str | None, Query(description="A model's name. Not needed where there is one.")]


class ModelAnswer(wire.Answer):
    name: str
    source: str | None = Field(description="Language code.")
    target: str | None = Field(description="Language code.")


class ModelsAnswer(wire.Answer):
    models: list[ModelAnswer]
    limits: dict[str, int | float] = Field(description="What one request may ask for.")
    keys: bool = Field(description="Whether an API key is needed.")


class Score(wire.Answer):
    metric: str
    score: float | None
    signature: str


class Sample(wire.Answer):
    source: str
    reference: str
    translation: str
    bleu: float


class RunAnswer(wire.Answer):
    """Whatever a bundle says of itself. Files are named without their folders."""

    model: str
    finished: bool = Field(description="False: training goes on, or was interrupted.")
    settings: dict[str, dict[str, Any]] = Field(description="`model`, `training`, `tokenizer`, as in config.yaml.")
    files: dict[str, str]
    data: dict[str, Any] = Field(description="Counts of pairs, words, tokens and parameters; the machine.")
    results: dict[str, Any] = Field(description="weights, steps, beam, perplexity, baseline_bleu, as in scores.json.")
    scores: list[Score]
    minutes: float | None
    curves: dict[str, list[tuple[float, float | None]]] = Field(description="(step, value): " + ", ".join(CURVES))
    samples: list[Sample] = Field(description="Of the best validation, worst first.")


def router(desk: Desk) -> APIRouter:
    models = desk.service.models
    router = APIRouter(
        prefix="/v1", tags=["attendo"], responses={status: PROBLEMS[status] for status in (401, 422, 429)}
    )

    @router.get("/models", response_model=ModelsAnswer, summary="What is served.")
    async def served() -> Response:
        found = []
        for name, translator in models.translators.items():
            source, target = translator.languages or (None, None)
            found.append(ModelAnswer(name=name, source=source, target=target))
        return wire.answered(
            ModelsAnswer(models=found, limits=to_dict(desk.service.limits), keys=desk.keys is not None)
        )

    @router.get(
        "/run", response_model=RunAnswer, dependencies=[Depends(desk.require_key)], summary="How a model was trained."
    )
    async def run(model: ModelName = None) -> Response:
        name = models.choose(model=model)
        bundles = models.translators[name].bundles
        if not bundles:
            raise Refusal(422, f"model {name!r} came from no bundle, so nothing is known of its training.")
        return wire.answered(await asyncio.to_thread(lambda: _run(name, open_bundle(bundles[0]))))

    return router


def _run(name: str, bundle: Bundle) -> RunAnswer:
    data, scores, entries = bundle.data(), bundle.scores(), bundle.read_log()
    settings = to_dict(bundle.config)
    files = {**settings["data"], "validation": data["validation"]} if "validation" in data else settings["data"]
    return RunAnswer(
        model=name,
        finished="weights" in scores,
        settings={part: settings[part] for part in ("model", "training", "tokenizer")},
        files={
            key: PurePath(files[key]).name
            for key in ("source", "target", "valid_source", "valid_target", "validation")
            if files.get(key)
        },
        data={
            key: data[key]
            for key in ("pairs", "words", "tokens_per_epoch", "vocab_size", "parameters", "machine")
            if key in data
        },
        results={
            key: scores[key] for key in ("weights", "steps", "beam", "perplexity", "baseline_bleu") if key in scores
        },
        scores=_scores(scores),
        minutes=max((entry["minutes"] for entry in entries if "minutes" in entry), default=None),
        curves={key: _thinned(curve(entries, *where)) for key, where in CURVES.items()},
        samples=_samples(entries),
    )


def _scores(scores: Mapping[str, Any]) -> list[Score]:
    groups = [("", scores.get("validation") or {}), (" int8", scores.get("int8") or {})]
    return [
        Score(metric=f"{name}{more}", score=found[key]["score"], signature=found[key]["signature"])
        for more, found in groups
        for key, name in (("bleu", "BLEU"), ("chrf", "chrF"), ("ter", "TER"))
        if key in found
    ]


def _samples(entries: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """Those of the validation that scored best, whose weights are the ones in use."""
    best = max((entry for entry in entries if entry.get("samples")), key=lambda entry: entry["bleu"], default=None)
    found = [Sample(**one) for one in best["samples"]] if best is not None else []
    return sorted(found, key=lambda sample: sample.bleu)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float | None]]:
    """Few enough to draw, the last among them."""
    every = -(-len(points) // MOST_POINTS) or 1
    return list(points[::-1][::every][::-1])
