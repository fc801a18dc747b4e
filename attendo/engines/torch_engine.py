"""The reference engine: runs a model in torch, as it was trained.

Suffixes: B sentences, S source length, T target length, D d_model, V vocabulary, N rows or positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attendo.data.batch import lengths, make_batch, pad
from attendo.data.batching import sorted_batches
from attendo.decoding.beam import search
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines.engine import BATCH_TOKENS, Ids
from attendo.models.transformer import Transformer
from attendo.nn.cache import DecoderCache
from attendo.nn.masks import padding_mask
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

SCORED_AT_ONCE = 2048  # target positions whose logits are held at the same time


class TorchEngine:
    """Searches and scores with a model. Results come in the order of the input and do not depend on the batch."""

    def __init__(self, model: Transformer, device: torch.device) -> None:
        self.model = model.to(device)
        self.device = device

    def search(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        batch_size: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, none longer than its limit."""
        found: dict[int, list[Hypothesis]] = {}
        batches = sorted_batches([len(ids) for ids in sources], batch_size=batch_size, batch_tokens=batch_tokens)
        with torch.inference_mode():
            for rows in (reporter or Silent()).track(batches, "Translating", len(batches)):
                cache = self.model.encode(*self._sources([sources[i] for i in rows]))
                hypotheses = search(
                    self._step,
                    self._select,
                    cache,
                    bos=BOS,
                    eos=EOS,
                    limits=[limits[i] for i in rows],
                    options=options,
                    forbidden=(PAD, BOS, UNK),
                )
                found.update(zip(rows, hypotheses, strict=True))
        return [found[i] for i in range(len(sources))]

    def score(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        batch_size: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        reporter: Reporter | None = None,
    ) -> list[list[float]]:
        """log p of each target id and its EOS, given the source and what comes before."""
        longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        found: dict[int, list[float]] = {}
        batches = sorted_batches(longest, batch_size=batch_size, batch_tokens=batch_tokens)
        with torch.inference_mode():
            for rows in (reporter or Silent()).track(batches, "Scoring", len(batches)):
                batch = make_batch([sources[i] for i in rows], [targets[i] for i in rows]).to(self.device)
                hidden_BTD = self.model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
                real_BT = padding_mask(batch.target_lengths_B, batch.target_in_BT.shape[1])[:, 0, 0]
                log_probs_N = self._log_probs(hidden_BTD[real_BT], batch.target_out_BT[real_BT])
                for i, row in zip(rows, log_probs_N.split(batch.target_lengths_B.tolist()), strict=True):
                    found[i] = row.tolist()
        return [found[i] for i in range(len(sources))]

    def _log_probs(self, hidden_ND: Tensor, target_N: Tensor) -> Tensor:
        """log softmax(W hidden)[target] at each position, a slice of them at a time, on the CPU."""
        slices = []
        for part_ND, ids_N in zip(hidden_ND.split(SCORED_AT_ONCE), target_N.split(SCORED_AT_ONCE), strict=True):
            logits_NV = self.model.output(part_ND).float()
            slices.append((logits_NV.gather(-1, ids_N[:, None])[:, 0] - logits_NV.logsumexp(-1)).cpu())
        return torch.cat(slices)

    def _sources(self, rows: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        return pad(rows, after=EOS).to(self.device), lengths(rows).to(self.device)

    def _step(self, ids_N: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        return self.model.step(ids_N.to(self.device), cache)

    def _select(self, cache: DecoderCache, rows_M: Tensor) -> DecoderCache:
        return cache.select(rows_M.to(self.device))
