"""Translations with their alignments, whichever engine translates."""

from collections.abc import Iterator, Sequence

import torch

from attendo.alignment.fitting import view_of
from attendo.alignment.links import (
    BATCH_TOKENS,
    Line,
    View,
    linked,
    owners,
    piece_links,
    places_of,
    solid,
)
from attendo.alignment.maps import attention_maps, translator_of
from attendo.bundle import Bundle
from attendo.data.batch import make_batch
from attendo.decoding.search import Hypothesis, Ids
from attendo.drafting import Draft, Links
from attendo.engines.batches import sorted_batches
from attendo.machine import DeviceName, ready
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.reporting import Reporter, Silent
from attendo.text.pair import TokenizerPair


class Aligner:
    """Says which words of texts and their translations belong together, by looking at the pairs once more in torch.

    So the translations may come from any engine. It is what `Translator.translate_many` takes as `align`.
    """

    def __init__(self, model: EncoderDecoder, tokenizers: TokenizerPair, view: View, device: torch.device) -> None:
        self.model = model.to(device)
        self.tokenizers = tokenizers
        self.view = view
        self.device = device

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto", reporter: Reporter | None = None) -> "Aligner":
        chosen, model = ready(device), translator_of(bundle)
        return cls(model, bundle.tokenizers, view_of(bundle, model.to(chosen), reporter or Silent()), chosen)

    def __call__(
        self, drafts: Sequence[Draft], found: Sequence[list[list[Hypothesis]]], texts: Sequence[str]
    ) -> list[Links]:
        sentences = [
            (sentence.ids, hypotheses[0].ids)
            for draft, each in zip(drafts, found, strict=True)
            for sentence, hypotheses in zip(draft.sentences, each, strict=True)
        ]
        pieces = iter(self.pieces([source for source, _ in sentences], [target for _, target in sentences]))
        return [
            self._words(draft, [one[0].ids for one in each], text, pieces)
            for draft, each, text in zip(drafts, found, texts, strict=True)
        ]

    def pieces(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[int]]:
        """For each pair and target piece the source piece that belongs to it."""
        found: dict[int, list[int]] = {}
        longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        for rows in sorted_batches(longest, batch_size=None, batch_tokens=BATCH_TOKENS):
            ours, theirs = [sources[i] for i in rows], [targets[i] for i in rows]
            maps = attention_maps(self.model, make_batch(ours, theirs).to(self.device))
            links = piece_links(self.view.weights(maps), [len(ids) for ids in ours], [len(ids) for ids in theirs])
            found.update(zip(rows, links, strict=True))
        return [found[i] for i in range(len(sources))]

    def _words(self, draft: Draft, targets: Sequence[Ids], text: str, pieces: Iterator[list[int]]) -> Links:
        source_line, target_line = Line(draft.source), Line(text)
        source_at = target_at = len(solid(draft.lead))
        links: set[tuple[int, int]] = set()
        for sentence, target, gap in zip(draft.sentences, targets, draft.gaps, strict=True):
            things = [one.text for one in sentence.core.things]
            read, spelled = sentence.core.read, self.tokenizers.target.decode(target)
            source, source_at = places_of(source_line, source_at, read, things)
            translated, target_at = places_of(target_line, target_at, spelled, things)
            links.update(
                linked(
                    next(pieces),
                    owners(self.tokenizers.source, source_line, read, sentence.ids, source),
                    owners(self.tokenizers.target, target_line, spelled, target, translated),
                )
            )
            source_at += len(solid(gap))
            target_at += len(solid(gap))
        return tuple(sorted(links))
