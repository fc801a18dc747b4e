"""What may come next: how logits become the log probabilities that every search chooses from.

    log_probs = log softmax(logits), and -inf for every id that may not come next

The softmax is over the full vocabulary: what may not be chosen keeps its share, so that the log probabilities of the
rest are those of teacher forcing.

Shapes: N rows (prefixes), V vocabulary, S all sentences, F rows whose next id is forced.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attendo.decoding.search import Ids, check_bounds, not_numbers


class Constraints:
    """What may come next in each sentence, in the order of precedence:

    prefixes: the ids a hypothesis begins with, whatever the other rules say.
    limits: how many ids, without EOS, a hypothesis may have at most; then nothing but EOS comes, at its own log
        probability. The limit belongs to the sentence: no result depends on the rest of the batch.
    no_repeat_ngram: an id that would complete a run of so many ids that is in the prefix already does not come; 0
        permits it. EOS may always come.
    forbidden: ids that never come, such as padding and BOS.
    """

    def __init__(
        self,
        *,
        eos: int,
        limits: Sequence[int],
        forbidden: Sequence[int] = (),
        prefixes: Sequence[Ids] | None = None,
        no_repeat_ngram: int = 0,
    ) -> None:
        if eos in forbidden:
            raise ValueError(f"EOS ({eos}) is among the forbidden ids {list(forbidden)}, so no hypothesis could end.")
        check_bounds(eos=eos, limits=limits, prefixes=prefixes)
        self.eos = eos
        self.limit_S = torch.tensor(limits, dtype=torch.int64)
        self.forbidden = list(forbidden)
        self.prefixes = prefixes or ()
        self.longest_prefix = max(map(len, self.prefixes), default=0)
        self.no_repeat_ngram = no_repeat_ngram

    def log_probs(
        self,
        logits_NV: Tensor,
        *,
        sentence_N: Tensor,
        length: int,
        prefix_N: Tensor,
        prefix_of: Callable[[int], Ids],
    ) -> Tensor:
        """log_probs_NV in float32, for N prefixes of `length` ids; -inf for every id that may not come next.

        sentence_N: int64 on the CPU, the sentence of each row. prefix_of: the ids of the prefix that has the given
        number in `prefix_N`; asked only where they matter.
        """
        if len(logits_NV) != len(sentence_N):
            raise ValueError(f"step returned logits of {len(logits_NV)} rows for {len(sentence_N)} prefixes.")
        log_probs_NV = logits_NV.float().log_softmax(dim=1)
        eos_N = log_probs_NV[:, self.eos].clone()
        # A logit that is not a number makes its whole row so: looking at one column is enough.
        _require_finite(eos_N, "the end of sentence")
        forced = self._forced(sentence_N, length)
        if forced:
            rows_F, ids_F = (torch.tensor(part, device=log_probs_NV.device) for part in zip(*forced, strict=True))
            forced_F = log_probs_NV[rows_F, ids_F]
            _require_finite(forced_F, "the prefix")
        if self.forbidden:
            log_probs_NV[:, self.forbidden] = -torch.inf
        if self.no_repeat_ngram and length >= self.no_repeat_ngram:
            for row, prefix in enumerate(prefix_N.tolist()):
                if repeating := completes_ngram(prefix_of(prefix), self.no_repeat_ngram):
                    log_probs_NV[row, repeating] = -torch.inf
        at_limit_N = self.limit_S[sentence_N] == length
        if at_limit_N.any():
            at_limit_N = at_limit_N.to(log_probs_NV.device)
            log_probs_NV[at_limit_N] = -torch.inf
            log_probs_NV[at_limit_N, self.eos] = eos_N[at_limit_N]
        if forced:
            log_probs_NV[rows_F] = -torch.inf
            log_probs_NV[rows_F, ids_F] = forced_F
        return log_probs_NV

    def _forced(self, sentence_N: Tensor, length: int) -> list[tuple[int, int]]:
        """(row, id) of each row that is still within its sentence's prefix."""
        if length >= self.longest_prefix:
            return []
        prefixes = [self.prefixes[sentence] for sentence in sentence_N.tolist()]
        return [(row, prefix[length]) for row, prefix in enumerate(prefixes) if length < len(prefix)]


def completes_ngram(ids: Sequence[int], n: int) -> list[int]:
    """The ids after which the last `n` ids would be a run that `ids` have already."""
    last = list(ids[len(ids) - n + 1 :])
    starts = range(len(ids) - n + 1)
    return sorted({ids[i + n - 1] for i in starts if list(ids[i : i + n - 1]) == last})


def _require_finite(log_probs_N: Tensor, what: str) -> None:
    if not log_probs_N.isfinite().all():
        raise not_numbers(what)
