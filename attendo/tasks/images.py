"""Pictures with labels → a classifier of pictures."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attendo.bundle import Bundle, load_weights, weights_of
from attendo.config import from_dict, merge, to_dict
from attendo.data.loader import Pairs
from attendo.data.noise_settings import PictureNoise
from attendo.data.picture_store import ChangedPictures, PreparedPictures, open_pictures, prepare_pictures
from attendo.data.pictures import find_pictures, training_digits
from attendo.errors import ConfigError, DataError
from attendo.evaluation.classification import classification_scores, confusion_picture
from attendo.machine import DeviceName
from attendo.models.presets import PresetName, vision_sizes
from attendo.models.settings import VisionConfig
from attendo.pictures import PictureClassifier
from attendo.plan import Speed, check_groups, check_model_kept, check_used, is_bounded
from attendo.recipe import DataConfig, RecipeName, RunConfig, TokenizerConfig
from attendo.reporting import Reporter
from attendo.tasks.task import Appraisal, Judge, Task, Verdict
from attendo.tasks.text_plan import check_of_pairs
from attendo.training.loop import Validation
from attendo.translator import exponential

AT_A_STEP = 128  # pictures of a batch
AT_ONCE = 256  # pictures that are looked at together in a validation
STAND_IN = {"n_labels": 2, "height": 1, "width": 1, "mean": [0.0], "deviation": [1.0]}  # for what only pictures tell


def chosen(
    preset: RecipeName, start: Bundle | None, settings: Mapping[str, Any], *, height: int, width: int
) -> dict[str, Any]:
    """Model, training and noise as plain values, for pictures of this size."""
    if preset not in ("auto", "tiny", "small", "base", "big"):
        raise ConfigError(f"the preset {preset!r} is none of pictures: must be one of auto, tiny, small, base, big.")
    size: PresetName = "tiny" if preset == "auto" else preset
    sizes = vision_sizes(size, height, width)
    training = {
        "epochs": 30.0,
        "schedule": "cosine",
        "optimizer": "muon",
        "learning_rate": 0.512 / sizes["d_model"],
        "weight_decay": 0.05,
        "warmup_steps": 200,
        "clip_norm": 1.0,
        "label_smoothing": 0.1,
        "average": 0,
        "ema": 0.0 if settings.get("training", {}).get("lora_rank") else 0.999,  # adapters have no average
    }
    noise = {"kind": "pictures", "shift": 0.07, "rotate": 10.0, "zoom": 0.1}
    if start is None:
        return {"model": {"kind": "vit", **sizes}, "training": training, "noise": noise}
    kept = {"model": to_dict(start.config.model), "noise": noise}
    return {**kept, "training": training | {"learning_rate": 0.0512 / start.config.model.d_model, "warmup_steps": 100}}


def check(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    """Finds mistakes in the settings before any work is done, with stand-ins for what only the pictures can tell."""
    check_groups(settings)
    check_of_pairs(settings)
    for key, value in settings.get("tokenizer", {}).items():
        if value != getattr(TokenizerConfig(), key, None):
            raise ConfigError(f"tokenizer.{key} = {value!r}: pictures are not cut into pieces of text. Leave it out.")
    layers = merge({"data": {"source": ""}}, chosen(preset, start, settings, height=1, width=1), settings)
    patch = layers["model"].get("patch")
    sides = {"height": patch, "width": patch} if isinstance(patch, int) and patch > 0 else {}
    config = from_dict(RunConfig, merge(layers, {"model": {**STAND_IN, **sides}}))
    if not isinstance(config.model, VisionConfig):
        raise ConfigError(f"model.kind = {config.model.kind!r}: pictures are for a model of kind vit.")
    for key in STAND_IN:
        if key in settings.get("model", {}):
            raise ConfigError(f"model.{key}: follows from the pictures. Leave it out; data.size sets height and width.")
    if config.data.more:
        raise ConfigError(f"{config.data.more[0]}: pictures come from one folder or file. Put all of them in one.")
    check_used(settings, config)
    if start is not None:
        check_model_kept(settings, config, start)


def prepare(
    data: DataConfig, _: TokenizerConfig, start: Bundle | None, cache: Path, reporter: Reporter
) -> PreparedPictures:
    size, n_channels = data.size, None
    if start is not None:
        model = start.config.model
        assert isinstance(model, VisionConfig)
        size, n_channels = (model.height, model.width), len(model.mean)
    return prepare_pictures(
        data.source, data.valid_source, size=size, n_channels=n_channels, cache=cache, reporter=reporter
    )


def resolve(
    settings: Mapping[str, Any],
    preset: RecipeName,
    data: DataConfig,
    corpus: PreparedPictures,
    start: Bundle | None,
    *,
    speed: Speed,  # noqa: ARG001
) -> RunConfig:
    """The whole config, once the pictures are known; only the number of steps is still open."""
    _, height, width = corpus.facts["size"]
    known = {"n_labels": len(corpus.labels), "height": height, "width": width}
    scale = {"mean": corpus.facts["mean"], "deviation": corpus.facts["deviation"]}
    if start is not None:  # its weights belong to its own scale
        scale = {}
    values = chosen(preset, start, settings, height=height, width=width)
    if is_bounded(settings, start):
        del values["training"]["epochs"]
    config = from_dict(RunConfig, merge(values, settings, {"model": {**known, **scale}, "data": to_dict(data)}))
    if "batch_tokens" in settings.get("training", {}):
        return config
    return replace(config, training=replace(config.training, batch_tokens=AT_A_STEP * _n_patches(config)))


def examples(corpus: PreparedPictures, config: RunConfig) -> Pairs:
    assert config.noise is None or isinstance(config.noise, PictureNoise)
    return ChangedPictures(corpus.train, _n_patches(config), config.noise, config.seed)


def _n_patches(config: RunConfig) -> int:
    assert isinstance(config.model, VisionConfig)
    return math.prod(config.model.grid)


def inherit(model: nn.Module, start: Bundle, corpus: PreparedPictures) -> None:
    """All weights, but of the labels only those that both have, each where it is now."""
    weights, own = start.weights(), weights_of(model)
    before = list(start.data()["labels"])
    shared = [(now, before.index(label)) for now, label in enumerate(corpus.labels) if label in before]
    for name in ("labels.weight", "labels.bias"):
        theirs, weights[name] = weights[name], own[name].clone()
        for now, then in shared:
            weights[name][now] = theirs[then]
    load_weights(model, weights, where=str(start.path))


def announce(config: RunConfig, facts: Mapping[str, Any]) -> str:
    pictures, labels = facts["pictures"], facts["labels"]
    return (
        f"Pictures: {pictures['kept']:,} for training, {pictures['held_out']:,} for validation, of {len(labels)} "
        f"labels: {', '.join(labels[:12])}{', …' if len(labels) > 12 else ''}.\n"
        f"Model: {facts['parameters']['total']:,} parameters, {config.model.in_words()}."
    )


class PictureJudge(Judge):
    """Tells the labels of the validation pictures, and counts."""

    def __init__(self, model: nn.Module, corpus: PreparedPictures, config: RunConfig, device: torch.device) -> None:
        self.model, self.corpus, self.device = model, corpus, device
        self.by_loss = config.training.stop_metric == "loss"

    def validate(self, model: nn.Module) -> Validation:
        return self._validation(self._logits(model))

    def _validation(self, logits: Tensor) -> Validation:
        truth = torch.from_numpy(self.corpus.valid.labels)
        loss = nn.functional.cross_entropy(logits, truth).item()
        accuracy = (logits.argmax(-1) == truth).double().mean().item()
        facts: dict[str, Any] = {"loss": loss, "perplexity": exponential(loss), "accuracy": accuracy, "samples": []}
        return Validation(score=-loss if self.by_loss else accuracy, facts=facts)

    def in_words(self, entry: Mapping[str, Any]) -> str:
        best = ", the best so far" if entry["best"] else ""
        return f"Validation at step {entry['step']:,}: {entry['accuracy']:.2%} right, loss {entry['loss']:.3f}{best}"

    def verdict(self, reporter: Reporter) -> Verdict:  # noqa: ARG002
        logits = self._logits(self.model)
        scores = classification_scores(
            self.corpus.valid.labels.tolist(), logits.argmax(-1).tolist(), self.corpus.labels
        )
        return Verdict(
            score=self._validation(logits).score,
            error=0.0 if self.by_loss else scores.standard_error,
            scores={**scores.to_json(), "table": scores.table()},
            summary={
                "accuracy": f"{scores.accuracy:.2%}",
                "training pictures": f"{len(self.corpus.train):,}",
                "validation pictures": f"{len(self.corpus.valid):,}",
            },
            words=f"Validation: {scores.accuracy:.2%} right, macro F1 {scores.macro_f1:.3f} ({{weights}}).",
            samples=[],
        )

    def _logits(self, model: nn.Module) -> Tensor:
        with torch.inference_mode():
            parts = np.array_split(np.arange(len(self.corpus.valid)), max(1, len(self.corpus.valid) // AT_ONCE))
            return torch.cat([model(self.corpus.valid.batch(part).pixels_BCYX.to(self.device)).cpu() for part in parts])


def appraise(
    bundle: Bundle, path: str, _columns: tuple[int, int] | None, device: DeviceName, reporter: Reporter
) -> Appraisal:
    """Accuracy, F1 and confusions on pictures that are kept like those for training."""
    if (digits := training_digits(Path(path))) is not None:
        raise DataError(f"{path} holds several parts. Name the file: {digits}, or that of another part beside it.")
    classifier, found = PictureClassifier.from_bundle(bundle, device=device), find_pictures(path)
    names = classifier.labels
    for label in found.labels:
        if label not in names:
            raise DataError(f"{path}: the label {label!r} is none of {', '.join(names)}, which {bundle.path} knows.")
    numbers = np.array([names.index(label) for label in found.labels])
    guesses = classifier.probabilities(list(found), reporter=reporter).argmax(1).tolist()
    scores = classification_scores(numbers[found.label_of].tolist(), guesses, names)
    return Appraisal(numbers=scores.to_json(), lines=scores.in_words(), picture=confusion_picture(scores))


TASK = Task(
    starts_from=("classify-images",),
    check=check,
    prepare=prepare,
    reopen=open_pictures,
    resolve=resolve,
    examples=examples,
    inherit=inherit,
    announce=announce,
    judge=PictureJudge,
    appraise=appraise,
    units="pictures",
)
