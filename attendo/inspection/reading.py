"""Looking inside a model that reads one text, two, or a picture: what it saw, and what it makes of it.

Suffixes: B pictures, T positions, V vocabulary, L labels, H heads, R and Q patches down and across.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attendo.alignment.heads import Head
from attendo.alignment.maps import watched
from attendo.bundle import Bundle
from attendo.classifier import TextClassifier
from attendo.data.labelled import shortened
from attendo.data.pictures import Picture, read_picture
from attendo.data.text_batch import TextBatch, segments_batch
from attendo.errors import DataError
from attendo.filler import MASK, Filler
from attendo.generator import Generator
from attendo.inspection.rollout import over_picture, picture_rollout
from attendo.inspection.seen import ALTERNATIVES, Choice, Seen, quietened, rounded
from attendo.machine import DeviceName
from attendo.models.bert import Classifier
from attendo.models.settings import AttentionKind
from attendo.pictures import PictureClassifier
from attendo.recipe import TaskName
from attendo.text.corpus import trim
from attendo.text.tokenizer import Tokenizer

TOKEN = "token"  # the vector before the patches
CONTROL_CHARACTERS = str.maketrans({"\n": "↵", "\t": "⇥", "\r": "␍"})

Without = Sequence[Head | str]


@dataclass(frozen=True)
class Guesses:
    """The likeliest pieces after a position or, in a gap, at it; and the piece that comes there, where one is given."""

    position: int
    given: Choice | None
    likeliest: tuple[Choice, ...]


@dataclass(frozen=True)
class SeenPicture:
    """A picture, and what the model looked at in it."""

    pixels: Picture  # as they are in the file
    rollout_RQ: Tensor

    def over(self, weights: Tensor) -> Tensor:
        """How much what stands for the picture looks at each patch: [..., T, T] -> [..., R, Q]."""
        return over_picture(weights, self.rollout_RQ.shape, token=weights.shape[-1] > self.rollout_RQ.numel())


@dataclass(frozen=True, kw_only=True)
class Reading(Seen):
    """What there is to see of a model that reads: `read` is the text, or the picture's file.

    A language model guesses at each position what comes next, a masked one what is in the gaps, a classifier the label.
    """

    read: str
    positions: tuple[str, ...]
    guesses: tuple[Guesses, ...] = ()
    probabilities: dict[str, float] = field(default_factory=dict)  # of the labels, the likeliest first
    evidence: tuple[float, ...] = ()  # of each position for the likeliest label, above the mean of all labels
    picture: SeenPicture | None = None

    @property
    def heading(self) -> str:
        """What was read, in one line."""
        return " ".join(self.read.replace("\t", " | ").split())

    @property
    def evidence_shares(self) -> list[float]:
        """The evidence of each position, divided by the strongest: from -1 to 1."""
        strongest = max(map(abs, self.evidence), default=0.0) or 1.0
        return [one / strongest for one in self.evidence]

    @property
    def goes_on(self) -> bool:
        """Whether it is a text that goes on, of which each position guesses the next piece."""
        return self.kinds == ["decoder"]

    def labels(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ARG002 (there is one)
        return self.positions, self.positions

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values, weights to four decimals."""
        return {
            "read": self.read,
            "positions": list(self.positions),
            "without_heads": [str(head) for head in self.without],
            "probabilities": self.probabilities,
            "evidence": [round(one, 4) for one in self.evidence],
            "guesses": [
                {
                    "position": one.position,
                    "given": None if one.given is None else one.given.to_json(),
                    "likeliest": [choice.to_json() for choice in one.likeliest],
                }
                for one in self.guesses
            ],
            "picture": None
            if self.picture is None
            else {
                "rollout": rounded(self.picture.rollout_RQ),
                "heads": [rounded(self.picture.over(layer_HTT)) for layer_HTT in self.weights("encoder")],
            },
            "attention": self.attention(),
        }


def read(bundle: Bundle, what: str, *, without: Without = (), device: DeviceName = "auto") -> Reading:
    """What the model of a bundle makes of a text, of two with a tab between, or of a picture's file."""
    bundle.require(*READERS, verb="inspect")
    return READERS[bundle.config.task](bundle, what, without, device)


def _next_pieces(bundle: Bundle, text: str, without: Without, device: DeviceName) -> Reading:
    generator = Generator.from_bundle(bundle, device=device)
    model, heads = quietened(generator.model, without)
    ids = _some(generator.encoded(text))
    if len(ids) > generator.context:
        raise DataError(f"the text has {len(ids)} pieces, and the model sees {generator.context}. Shorten it.")
    ids_BT = torch.tensor([ids], dtype=torch.int64, device=generator.device)
    maps = watched(model, lambda twin: twin(ids_BT))
    log_probs_TV = maps.result[0].float().log_softmax(-1).cpu()
    names, best = _names(generator.tokenizer), log_probs_TV.topk(ALTERNATIVES)
    following = [Choice(names[id_], row_V[id_].item()) for id_, row_V in zip(ids[1:], log_probs_TV, strict=False)]
    return Reading(
        maps=maps,
        without=heads,
        read=text,
        positions=tuple(names[id_] for id_ in ids),
        guesses=tuple(
            Guesses(position, given, _choices(names, best.values[position], best.indices[position]))
            for position, given in enumerate([*following, None])
        ),
    )


def _gaps(bundle: Bundle, text: str, without: Without, device: DeviceName) -> Reading:
    filler = Filler.from_bundle(bundle, device=device)
    model, heads = quietened(filler.model, without)
    batch = filler.batch([_some(filler.encoded(one)) for one in _texts(text)])
    maps = watched(model, lambda twin: twin.vectors(batch))
    ids, names = batch.ids_BT[0].tolist(), _names(filler.tokenizer)
    gaps = [position for position, id_ in enumerate(ids) if id_ == filler.tokenizer.vocab_size]
    best: tuple[Tensor, ...] = ()
    if gaps:  # an encoder alone cannot tell, and is not asked
        with torch.inference_mode():
            best = filler.likeliest(model.logits(maps.result[0, gaps]).cpu(), ALTERNATIVES)
    return Reading(
        maps=maps,
        without=heads,
        read=text,
        positions=tuple(names[id_] for id_ in ids),
        guesses=tuple(
            Guesses(position, None, _choices(names, *row)) for position, *row in zip(gaps, *best, strict=True)
        ),
    )


def _label(bundle: Bundle, text: str, without: Without, device: DeviceName) -> Reading:
    classifier = TextClassifier.from_bundle(bundle, device=device)
    model, heads = quietened(classifier.model, without)
    n, tokenizers = classifier.model.config.n_separators, classifier.tokenizers
    ((first, second, _),) = shortened(tokenizers, [_texts(text)], classifier.max_length, n_separators=n)
    batch = segments_batch([_some(first)], [second], n_separators=n).to(classifier.device)
    maps = watched(model, lambda twin: twin(batch))
    names = _names(tokenizers.source)
    return Reading(
        maps=maps,
        without=heads,
        read=text,
        positions=tuple(names[id_] for id_ in batch.ids_BT[0].tolist()),
        probabilities=_likeliest_first(classifier.labels, maps.result[0]),
        evidence=_evidence(model, batch, int(maps.result[0].argmax())),
    )


def _evidence(model: Classifier, batch: TextBatch, label: int) -> tuple[float, ...]:
    with torch.inference_mode():
        evidence_BTL = model.evidence(batch)
    if evidence_BTL is None:
        return ()
    return tuple((evidence_BTL[0, :, label] - evidence_BTL[0].mean(dim=-1)).float().tolist())


def _picture(bundle: Bundle, file: str, without: Without, device: DeviceName) -> Reading:
    classifier = PictureClassifier.from_bundle(bundle, device=device)
    model, heads = quietened(classifier.model, without)
    pixels, (rows, columns) = read_picture(file), model.config.grid
    maps = watched(model, lambda twin: twin(classifier.pixels([pixels])))
    token = model.config.pooling == "first"
    names = [f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    return Reading(
        maps=maps,
        without=heads,
        read=Path(file).name,
        positions=(*([TOKEN] if token else []), *names),
        probabilities=_likeliest_first(classifier.labels, maps.result[0]),
        picture=SeenPicture(
            pixels,
            picture_rollout(maps.encoder, (rows, columns), token=token)[0].float().cpu(),
        ),
    )


READERS: dict[TaskName, Callable[[Bundle, str, Without, DeviceName], Reading]] = {
    "language-model": _next_pieces,
    "masked-language-model": _gaps,
    "classify": _label,
    "classify-images": _picture,
}


def _texts(text: str) -> list[str]:
    """One text, or two with a tab between."""
    texts = [trim(one) for one in text.split("\t")]
    if len(texts) > 2:
        raise DataError(f"{text[:60]!r} has {len(texts)} texts with tabs between, and the model reads one or two.")
    return texts


def _some(ids: list[int]) -> list[int]:
    if not ids:
        raise DataError("there are no words to look at. Give a text.")
    return ids


def _names(tokenizer: Tokenizer) -> list[str]:
    """The pieces of the vocabulary, without line breaks; the id after them is the mask."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return [*(piece.translate(CONTROL_CHARACTERS) for piece in pieces), MASK]


def _choices(names: Sequence[str], log_probs: Tensor, ids: Tensor) -> tuple[Choice, ...]:
    return tuple(Choice(names[id_], value) for id_, value in zip(ids.tolist(), log_probs.tolist(), strict=True))


def _likeliest_first(labels: Sequence[str], logits_L: Tensor) -> dict[str, float]:
    found = zip(labels, logits_L.float().softmax(-1).tolist(), strict=True)
    return dict(sorted(found, key=lambda one: -one[1]))
