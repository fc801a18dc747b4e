"""Texts with labels → a classifier, from nothing or from a model that has read much text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attendo.bundle import Bundle, load_weights, weights_of
from attendo.classifier import TextClassifier, labels_of
from attendo.data.labelled import LabelledRows, prepare_labelled, read_labelled
from attendo.data.loader import Pairs
from attendo.data.prepare import Prepared, open_prepared
from attendo.errors import ConfigError, DataError
from attendo.evaluation.classification import ClassificationScores, classification_scores, confusion_picture
from attendo.machine import DeviceName
from attendo.models.bert import Classifier
from attendo.models.settings import BertConfig, EncoderConfig
from attendo.plan import Speed, check_groups
from attendo.recipe import DataConfig, RecipeName, RunConfig, TokenizerConfig
from attendo.reporting import Reporter
from attendo.tasks import text_plan
from attendo.tasks.task import Appraisal, Judge, Task, Verdict
from attendo.training.loop import Validation
from attendo.translator import exponential

SMALL = 512  # d_model below which a model cannot have learned much from what it has read
OF_SPANS = {"pooling", "span_widths", "n_filters"}  # settings that no other classifier has
# Those that it has as others do: who asks for any other setting wants layers.
OF_BOTH = {
    *("kind", "n_layers", "d_model", "residual_dropout", "word_dropout", "label_dropout"),
    *("embedding_norm", "embedding_scale", "n_segments", "n_separators", "text_vector", "unit_vectors"),
}


def choose(
    preset: RecipeName, *, max_length: int, texts: int, start: Bundle | None, spans: bool = False
) -> dict[str, Any]:
    """Model and training settings as plain values, for so many texts.

    From nothing, little can be learned from a few thousand texts: a moving average of the weights, embeddings that
    begin with what stands near a piece, and a small model: with `spans` filters over a few pieces (Kim 2014), trained
    with R-Drop, otherwise layers, much dropout, and the mean of all vectors.
    """
    if preset == "llama":
        raise ConfigError("the preset 'llama' is a language model, and this is a classifier. Choose another, or auto.")
    training: dict[str, Any] = {
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "label_smoothing": 0.1,
        "clip_norm": 1.0,
        "schedule": "cosine",
        "learning_rate": 0.001,
        "warmup_steps": 100,
        "batch_tokens": 1024,
        "patience": 12,
        "epochs": min(30.0, max(2.0, 300_000 / max(texts, 1))),
    }
    if start is not None:
        further, kept, before = text_plan.adapting(training, start), {"kind": "classifier"}, start.config.model
        if isinstance(before, BertConfig) and not start.interop():  # trained here: much is new to it
            further["learning_rate"] = min(training["learning_rate"], 0.04 / before.d_model)
            further["epochs"] = min(20.0, training["epochs"])
            kept |= _tuned(before)
        return {"task": "classify", "model": kept, "training": further}
    training |= {"ema": 0.998, "embeddings": "related"}
    if spans:
        model = {
            "kind": "classifier",
            "n_layers": 0,
            "d_model": 300,
            "n_heads": 1,
            "positions": "none",
            "norm_place": "post",
            "embedding_norm": False,
            "pooling": "spans",
            "n_filters": 200,
            "residual_dropout": 0.0,
            "label_dropout": 0.5,
        }
        training |= {"epochs": min(12.0, training["epochs"]), "r_drop": 1.0}
        return {"task": "classify", "model": model, "training": training}
    sizes = {"n_layers": 2, "d_model": 128, "d_ff": 256, "n_heads": 4}
    if preset != "auto":
        sizes = text_plan.layers_for(preset)
    model = {
        "kind": "classifier",
        **sizes,
        "positions": "learned",
        "n_positions": max_length,
        "norm_place": "pre",
        "activation": "gelu",
        "pooling": "mean",
        "residual_dropout": 0.3,
        "word_dropout": 0.2,
    }
    return {"task": "classify", "model": model, "training": training}


def _by_spans(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None, *, two_texts: bool) -> bool:
    """Whether spans are to be found: where nobody asks for layers, and there are no two texts to be compared.

    A span reaches a few pieces far, and attention from any place in one text to any in the other.
    """
    if preset != "auto" or start is not None:
        return False
    asked = settings.get("model", {})
    if asked.get("n_layers", 0) or asked.get("pooling", "spans") != "spans" or not asked.keys() <= OF_SPANS | OF_BOTH:
        return False
    return not two_texts or bool(asked.keys() & OF_SPANS)


def _tuned(before: BertConfig) -> dict[str, Any]:
    """What a classifier has that its beginning, a masked language model trained here, has not, or not for few texts.

    A model that has learned to tell something from its first vector goes on with that. A small one has read little, and
    forgets it for the labels of a few texts unless much is left out.
    """
    chosen: dict[str, Any] = {"pooling": "first" if before.next_sentence else "mean"}
    if before.d_model < SMALL:
        rates = {"residual_dropout": 0.3, "word_dropout": 0.2}
        chosen |= {name: max(rate, getattr(before, name)) for name, rate in rates.items()}
    return chosen


def check(settings: Mapping[str, Any], preset: RecipeName, start: Bundle | None) -> None:
    check_groups(settings)
    spans = _by_spans(settings, preset, start, two_texts=False)
    chosen = choose(preset, max_length=text_plan.max_length_of(settings), texts=1, start=start, spans=spans)
    config = text_plan.check(settings, start, chosen=chosen, fixed={**text_plan.stand_ins(), "n_labels": 2})
    if config.data.more:
        raise ConfigError(f"{config.data.more[0]}: a classifier learns from one file. Put the lines together in one.")


def prepare(
    data: DataConfig, tokenizer: TokenizerConfig, start: Bundle | None, cache: Path, reporter: Reporter
) -> Prepared:
    return prepare_labelled(
        data.source,
        data.valid_source,
        columns=data.columns,
        labels=labels_of(start) if start is not None and start.config.task == "classify" else None,
        tokenizers=None if start is None else start.tokenizers,
        kind=tokenizer.kind,
        vocab_size=tokenizer.vocab_size,
        max_length=data.max_length,
        n_separators=1 if start is None else _encoder_of(start).n_separators,
        cache=cache,
        reporter=reporter,
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
    texts = corpus.facts["texts"]["kept"]
    two_texts = bool((corpus.store.target.lengths() > 1).any())  # the label, and what comes after it
    spans = _by_spans(settings, preset, start, two_texts=two_texts)
    chosen = choose(preset, max_length=data.max_length, texts=texts, start=start, spans=spans)
    fixed = {"vocab_size": corpus.tokenizers.source.vocab_size + 1, "n_labels": len(corpus.facts["labels"])}
    return text_plan.resolve(settings, data, corpus, start, chosen=chosen, fixed=fixed)


def rows_of(corpus: Prepared, config: RunConfig) -> Pairs:
    assert isinstance(config.model, EncoderConfig)
    return LabelledRows(corpus.store, n_separators=config.model.n_separators)


def inherit(model: nn.Module, start: Bundle, _: Prepared) -> None:
    """The encoder of the bundle, and what else it has that the classifier has as well."""
    own, theirs = weights_of(model), start.weights()
    known = {name: tensor for name, tensor in theirs.items() if name in own and tensor.shape == own[name].shape}
    missing = [name for name in own if name.startswith("encoder.") and name not in known]
    if missing:
        raise ConfigError(f"{start.path} has no tensor {missing[0]} that fits: its encoder is not that of this run.")
    load_weights(model, {**own, **known}, where=str(start.path))


class LabelJudge(Judge):
    """The share of held-out texts whose label is told right."""

    def __init__(self, model: nn.Module, corpus: Prepared, config: RunConfig, device: torch.device) -> None:
        assert isinstance(model, Classifier)
        names = corpus.facts["labels"]
        self.classifier = TextClassifier(
            model, corpus.tokenizers, names, max_length=config.data.max_length, device=device
        )
        self.texts = [texts.split("\t") for _, texts in corpus.valid]
        self.truth = [names.index(label) for label, _ in corpus.valid]

    def validate(self, _: nn.Module) -> Validation:
        scores, nats = self._scores()
        facts = {
            "loss": nats,
            "perplexity": exponential(nats),
            "accuracy": scores.accuracy,
            "macro_f1": scores.macro_f1,
        }
        return Validation(score=scores.accuracy, facts=facts)

    def in_words(self, entry: Mapping[str, Any]) -> str:
        return (
            f"Validation at step {entry['step']:,}: accuracy {entry['accuracy']:.1%}, F1 {entry['macro_f1']:.3f}, "
            f"loss {entry['loss']:.3f}{', the best so far' if entry['best'] else ''}"
        )

    def verdict(self, reporter: Reporter) -> Verdict:  # noqa: ARG002
        scores, nats = self._scores()
        return Verdict(
            score=scores.accuracy,
            error=scores.standard_error,
            scores={"loss": nats, **scores.to_json(), "table": scores.table()},
            summary={"accuracy": f"{scores.accuracy:.2%}", "F1, macro": f"{scores.macro_f1:.4f}"},
            samples=[],
            words=f"Validation: accuracy {scores.accuracy:.1%} of {scores.count:,}, F1 {scores.macro_f1:.3f} "
            "({weights}).",
        )

    def _scores(self) -> tuple[ClassificationScores, float]:
        probabilities = self.classifier.probabilities(self.texts)
        truth = torch.tensor(self.truth)
        nats = -probabilities.gather(1, truth[:, None]).clamp(min=1e-30).log().double().mean().item()
        guesses = probabilities.argmax(1).tolist()
        return classification_scores(self.truth, guesses, self.classifier.labels), nats


def appraise(
    bundle: Bundle, path: str, columns: tuple[int, int] | None, device: DeviceName, reporter: Reporter
) -> Appraisal:
    """Accuracy, F1 and confusions on a file of labels and texts."""
    classifier = TextClassifier.from_bundle(bundle, device=device)
    rows, names = list(read_labelled(path, columns)), classifier.labels
    for one in rows:
        if one.label not in names:
            known = ", ".join(map(repr, names))
            raise DataError(f"{path}: the label {one.label!r} is none of {known}, which {bundle.path} knows.")
    guesses = classifier.probabilities([one.texts for one in rows], reporter=reporter).argmax(1).tolist()
    scores = classification_scores([names.index(one.label) for one in rows], guesses, names)
    return Appraisal(numbers=scores.to_json(), lines=scores.in_words(), picture=confusion_picture(scores))


def _encoder_of(start: Bundle) -> EncoderConfig:
    assert isinstance(start.config.model, EncoderConfig)
    return start.config.model


TASK = Task(
    starts_from=("masked-language-model", "classify"),
    check=check,
    prepare=prepare,
    reopen=open_prepared,
    resolve=resolve,
    examples=rows_of,
    inherit=inherit,
    begin=text_plan.begin,
    announce=text_plan.announce,
    judge=LabelJudge,
    appraise=appraise,
)
