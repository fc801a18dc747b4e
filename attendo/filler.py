"""Gaps filled, and vectors of texts: an encoder put to work.

Suffixes: B texts, T positions, D d_model, V vocabulary, N hidden positions, K guesses.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attendo.bundle import Bundle
from attendo.data.batching import batch_starts
from attendo.data.loader import Pairs
from attendo.data.text_batch import NOTHING, TextBatch, segments_batch
from attendo.engines.batches import sorted_batches
from attendo.errors import ConfigError, DataError
from attendo.machine import DeviceName, ready
from attendo.models.bert import Bert, Classifier, text_vectors
from attendo.models.settings import PoolingName
from attendo.reporting import Reporter, Silent, lost_ends
from attendo.text.corpus import trim
from attendo.text.tokenizer import CONTROLS, Tokenizer

MASK = "[MASK]"
BATCH_TOKENS = 4096  # positions at once


@dataclass(frozen=True)
class Guess:
    """A piece for a gap, how likely it is, and the text with it in that gap."""

    piece: str
    probability: float
    text: str


@dataclass(frozen=True)
class TellingScore:
    """How well a model tells something: nats for each, the share it gets right, and how many there are."""

    nats: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class MaskScore:
    """How well a model tells what is hidden, and, where it has learned that, whether a text follows another."""

    hidden: TellingScore
    follows: TellingScore | None


class Filler:
    """Fills the gaps of raw text."""

    def __init__(self, model: Bert, tokenizer: Tokenizer, *, max_length: int, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.tokenizer = tokenizer
        self.spellings = tokenizer.spellings()
        self.max_length = max_length
        self.device = device

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto") -> "Filler":
        model = bundle.require("masked-language-model", verb="generate").model()
        assert isinstance(model, Bert)
        return cls(model, bundle.tokenizers.source, max_length=bundle.config.data.max_length, device=ready(device))

    def fill(self, text: str, *, top: int = 5) -> list[list[Guess]]:
        """The likeliest pieces for each `[MASK]` of the text, best first, all gaps at once."""
        if MASK not in text:
            raise DataError(f"{text!r} has no gap. Write {MASK} where one is, as in 'The {MASK} runs.'")
        batch = self.batch([self.encoded(text)])
        with torch.inference_mode():
            hidden_T = (batch.ids_BT == self.tokenizer.vocab_size)[0]
            logits_NV = self.model.logits(self.model.vectors(batch)[0, hidden_T])
            log_probs_NK, ids_NK = self.likeliest(logits_NV, top)
        return [
            [
                Guess(self.tokenizer.pieces([id_])[0], probability, self._filled(text, number, id_))
                for id_, probability in zip(row.tolist(), probabilities.tolist(), strict=True)
            ]
            for number, (row, probabilities) in enumerate(zip(ids_NK, log_probs_NK.exp(), strict=True))
        ]

    def encoded(self, text: str) -> list[int]:
        """The ids of a text; a gap is the id after those of the tokenizer."""
        first, *others = (self._before_gap(part) for part in text.split(MASK))
        ids = self.tokenizer.encode_inside([first])[0] if first else []
        for part in others:
            ids += [self.tokenizer.vocab_size, *(self.tokenizer.encode_after(part) if part else ())]
        return ids

    def _before_gap(self, text: str) -> str:
        """What stands in a gap is a piece with the space before it, so the space goes with the gap."""
        return text if self.tokenizer.kind == "characters" else text.removesuffix(" ")

    def batch(self, texts: Sequence[Sequence[int]]) -> TextBatch:
        """One row of one text or two, as the model sees them."""
        first, *seconds = texts
        n_pieces, n_separators = sum(map(len, texts)), self.model.config.n_separators
        room = self.max_length - 2 - n_separators * len(seconds)
        if n_pieces > room:
            raise DataError(f"the text has {n_pieces} pieces, and the model sees {room}. Shorten it.")
        return segments_batch([first], seconds or None, n_separators=n_separators).to(self.device)

    def likeliest(self, logits_NV: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """The log probabilities and ids of the likeliest pieces of text, best first: [N, K] each."""
        log_probs_NV = logits_NV.float().log_softmax(-1)
        log_probs_NV[:, : len(CONTROLS)] = -math.inf  # control ids and the mask itself are no text
        log_probs_NV[:, self.tokenizer.vocab_size :] = -math.inf
        best = log_probs_NV.topk(min(top, self.tokenizer.vocab_size - len(CONTROLS)))
        return best.values, best.indices

    def _filled(self, text: str, number: int, id_: int) -> str:
        """The text with that one of its gaps filled, all else as it was written."""
        parts = text.split(MASK)
        before, after = self._before_gap(MASK.join(parts[: number + 1])), MASK.join(parts[number + 1 :])
        spelled = self.spellings[id_]
        return f"{before}{spelled if before else spelled.removeprefix(' ')}{after}"


class Embedder:
    """Vectors of raw texts: the mean of what the encoder gives, or its first."""

    def __init__(
        self, model: Bert | Classifier, tokenizer: Tokenizer, *, max_length: int, device: torch.device
    ) -> None:
        self.model = model.to(device).eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.device = device

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto") -> "Embedder":
        model = bundle.require("masked-language-model", "classify", verb="embed").model()
        assert isinstance(model, Bert | Classifier)
        return cls(model, bundle.tokenizers.source, max_length=bundle.config.data.max_length, device=ready(device))

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: PoolingName | None = None,
        unit: bool | None = None,
        reporter: Reporter | None = None,
    ) -> NDArray[np.float32]:
        """[len(texts), d_model]; of a text longer than the model can see, its beginning.

        pooling: the mean of all vectors, or the first. unit: brought to length one. None: as the model's settings say.
        """
        pooling = self.model.config.text_vector if pooling is None else pooling
        unit = self.model.config.unit_vectors if unit is None else unit
        if pooling not in ("mean", "first"):
            raise ConfigError(f"pooling = {pooling!r}: must be mean or first.")
        if pooling == "first" and not self.model.config.n_layers:
            raise ConfigError(
                "pooling = 'first': this model has no layers, so that its first vector is the same for every text. "
                "Take the mean."
            )
        reporter, room = reporter or Silent(), self.max_length - 2
        whole = self.tokenizer.encode_batch([trim(text) for text in texts])
        if n_cut := sum(len(ids) > room for ids in whole):
            reporter.say(lost_ends(n_cut, len(whole), max_length=self.max_length))
        rows = [ids[:room] for ids in whole]
        found = np.zeros((len(rows), self.model.config.d_model), dtype=np.float32)
        batches = sorted_batches([len(row) for row in rows], batch_size=None, batch_tokens=BATCH_TOKENS)
        with torch.inference_mode():
            for numbers in reporter.track(batches, "Embedding", len(batches)):
                batch = segments_batch([rows[number] for number in numbers]).to(self.device)
                x_BD = text_vectors(self.model.vectors(batch), batch.lengths_B, pooling).float()
                found[list(numbers)] = (F.normalize(x_BD, dim=-1) if unit else x_BD).cpu().numpy()
        return found


def npy(vectors: NDArray[np.float32]) -> bytes:
    """The content of a .npy file."""
    content = io.BytesIO()
    np.save(content, vectors, allow_pickle=False)
    return content.getvalue()


def score_masked(model: Bert, rows: Pairs, *, device: torch.device) -> MaskScore:
    """Over all that is hidden in epoch 0."""
    lengths, none = rows.lengths(0)
    order = np.argsort(lengths, kind="stable")
    starts = [*batch_starts(lengths[order], none[order], batch_tokens=BATCH_TOKENS).tolist(), len(order)]
    hidden, follows = _Sum(), _Sum()
    with torch.inference_mode():
        for start, stop in pairwise(starts):
            batch = rows.batch(order[start:stop], 0).to(device)
            assert isinstance(batch, TextBatch) and batch.targets_BT is not None
            asked_BT = batch.targets_BT != NOTHING
            x_BTD = model.vectors(batch)
            hidden.add(model.logits(x_BTD[asked_BT]), batch.targets_BT[asked_BT])
            follow_logits_B2 = model.follow_logits(batch, x_BTD)
            if follow_logits_B2 is not None and batch.labels_B is not None:
                follows.add(follow_logits_B2, batch.labels_B)
    return MaskScore(hidden.score(), follows.score() if follows.count else None)


@dataclass
class _Sum:
    """What comes together of a score."""

    nats: float = 0.0
    right: int = 0
    count: int = 0

    def add(self, logits_NV: Tensor, target_N: Tensor) -> None:
        log_probs_NV = logits_NV.float().log_softmax(-1)
        self.nats -= log_probs_NV.gather(-1, target_N[:, None]).double().sum().item()
        self.right += int((log_probs_NV.argmax(-1) == target_N).sum())
        self.count += len(target_N)

    def score(self) -> TellingScore:
        count = max(1, self.count)
        return TellingScore(self.nats / count, self.right / count, self.count)
