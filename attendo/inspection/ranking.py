"""What each head is worth: how much worse a model gets without it, one head at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attendo.alignment.heads import Head, heads_of, without_heads
from attendo.alignment.maps import transformer_of
from attendo.bundle import Bundle
from attendo.engines.torch_engine import TorchEngine
from attendo.evaluation.scores import bleu, require_pairs
from attendo.machine import DeviceName, ready
from attendo.models.transformer import Transformer
from attendo.reporting import Reporter, Silent
from attendo.translator import Translator, nats_per_piece


@dataclass(frozen=True)
class Worth:
    """The loss without a head, in nats per piece, and BLEU where it was asked for. No head: of the whole model."""

    head: Head | None
    loss: float
    bleu: float | None

    def to_json(self, whole: "Worth") -> dict[str, Any]:
        """Beside the whole model."""
        found = {"head": str(self.head), "loss": self.loss, "loss_added": self.loss - whole.loss}
        if self.bleu is not None and whole.bleu is not None:
            found |= {"bleu": self.bleu, "bleu_lost": whole.bleu - self.bleu}
        return found


@dataclass(frozen=True)
class Ranking:
    """The heads, the one that is missed most first; and the whole model."""

    whole: Worth
    heads: tuple[Worth, ...]
    pairs: int
    signature: str | None  # of BLEU

    def to_json(self) -> dict[str, Any]:
        whole = {"loss": self.whole.loss} | ({} if self.whole.bleu is None else {"bleu": self.whole.bleu})
        return {
            "pairs": self.pairs,
            **({} if self.signature is None else {"bleu_signature": self.signature}),
            "whole": whole,
            "heads": [one.to_json(self.whole) for one in self.heads],
        }

    def in_words(self) -> list[str]:
        """A table, the largest loss first."""
        scored = self.whole.bleu is not None
        lines = [
            f"All heads: loss {self.whole.loss:.4f} nats per piece"
            + (f", BLEU {self.whole.bleu:.2f} ({self.signature})" if scored else "")
            + f", on {self.pairs:,} pairs.",
            "",
            "without        loss   added" + ("    BLEU    lost" if scored else ""),
        ]
        for one in self.heads:
            line = f"{one.head!s:<12} {one.loss:6.4f} {one.loss - self.whole.loss:+7.4f}"
            if one.bleu is not None and self.whole.bleu is not None:
                line += f"  {one.bleu:6.2f} {self.whole.bleu - one.bleu:+7.2f}"
            lines.append(line)
        return lines


def rank_heads(
    bundle: Bundle,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    with_bleu: bool = False,
    beam: int = 1,
    device: DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Ranking:
    """Scores the pairs with the whole model and without each head; by BLEU where asked, else by the loss."""
    require_pairs(sources, references)
    reporter, chosen, model = reporter or Silent(), ready(device), transformer_of(bundle)
    heads = heads_of(model.config)
    signature: str | None = None

    def worth(head: Head | None, model: Transformer) -> Worth:
        nonlocal signature
        translator = _translator(bundle, model, chosen)
        loss = nats_per_piece(translator.score(sources, references))
        if not with_bleu:
            return Worth(head, loss, None)
        found = translator.translate_many(sources, beam=beam, split=False, check=False)
        score = bleu([one.text for one in found], references, target_language=translator.target_language)
        signature = score.signature
        return Worth(head, loss, score.score)

    def each() -> Iterator[Worth]:
        yield worth(None, model)
        for head in heads:
            yield worth(head, without_heads(model, [head]))

    whole, *others = reporter.track(each(), "Without each head", len(heads) + 1)
    others.sort(key=lambda one: one.bleu if one.bleu is not None else -one.loss)
    return Ranking(whole, tuple(others), len(sources), signature)


def _translator(bundle: Bundle, model: Transformer, device: torch.device) -> Translator:
    return Translator(
        TorchEngine(model, device, before=bundle.tokenizers.target.before),
        bundle.tokenizers,
        max_length=bundle.config.data.max_length,
        languages=bundle.languages,
    )
