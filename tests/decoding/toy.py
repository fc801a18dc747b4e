"""A toy language model whose state is the prefix itself, and slow searches to compare with.

The logits are a function of the source and of every id so far, so a state row that is reordered wrongly shows in the
numbers. They are looked up, not computed, so that equal prefixes have equal logits to the last bit in any batch.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attendo.decoding.search import SearchOptions

BOS, EOS = 1, 2
TABLE_ROWS = 997


@dataclass(frozen=True)
class Prefixes:
    source_N: Tensor
    ids_NT: Tensor


@dataclass
class ToyModel:
    """logits = table[hash(source, prefix)]; `coarse` rounds them, which makes ties frequent."""

    seed: int
    vocab_size: int = 5
    spread: float = 2.0
    coarse: bool = False
    eos_bias: float = 0.0
    steps: list[Prefixes] = field(default_factory=list)
    selections: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.table = torch.randn(TABLE_ROWS, self.vocab_size, generator=generator) * self.spread
        self.table[:, EOS] += self.eos_bias
        if self.coarse:
            self.table = self.table.round()

    def start(self, sources: Sequence[int]) -> Prefixes:
        return Prefixes(torch.tensor(sources), torch.empty(len(sources), 0, dtype=torch.int64))

    def logits(self, prefixes: Prefixes) -> Tensor:
        key_N = prefixes.source_N
        for ids_N in prefixes.ids_NT.unbind(1):
            key_N = (key_N * 31 + ids_N + 1) % TABLE_ROWS
        return self.table[key_N]

    def step(self, ids_N: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        assert ids_N.dtype == torch.int64
        state = Prefixes(state.source_N, torch.cat([state.ids_NT, ids_N.unsqueeze(1)], dim=1))
        self.steps.append(state)
        return self.logits(state), state

    def select(self, state: Prefixes, rows_M: Tensor) -> Prefixes:
        assert rows_M.dtype == torch.int64
        self.selections.append(rows_M)
        return Prefixes(state.source_N[rows_M], state.ids_NT[rows_M])

    def log_probs(self, source: int, ids: Sequence[int]) -> list[float]:
        """log p(v | source, ids) of every v, by one row alone."""
        prefix = Prefixes(torch.tensor([source]), torch.tensor([[BOS, *ids]]))
        log_probs: list[float] = self.logits(prefix).log_softmax(dim=1)[0].tolist()
        return log_probs

    def forced(self, source: int, ids: Sequence[int]) -> list[float]:
        """The log probability of each id and of EOS, by teacher forcing."""
        return [self.log_probs(source, ids[:t])[id_] for t, id_ in enumerate([*ids, EOS])]


def run(
    algorithm: Callable[..., Any],
    model: ToyModel,
    sources: Sequence[int],
    limits: Sequence[int],
    options: SearchOptions,
    *,
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    **its_own: Any,
) -> Any:
    """A search with the model; `its_own`: what only this algorithm takes."""
    return algorithm(
        model.step,
        model.select,
        model.start(sources),
        bos=BOS,
        eos=EOS,
        limits=limits,
        options=options,
        forbidden=forbidden,
        prefixes=prefixes,
        **its_own,
    )


Scored = tuple[tuple[int, ...], float]


def exhaustive(
    model: ToyModel, source: int, limit: int, options: SearchOptions, forbidden: Sequence[int] = ()
) -> list[Scored]:
    """Every sequence there is, best score first."""
    alphabet = [i for i in range(model.vocab_size) if i != EOS and i not in forbidden]
    sequences = [ids for length in range(limit + 1) for ids in itertools.product(alphabet, repeat=length)]
    scored = [(ids, sum(model.forced(source, ids)) / options.penalty(len(ids) + 1)) for ids in sequences]
    return sorted(scored, key=lambda entry: -entry[1])[: options.n_best]


def permitted(
    ids: tuple[int, ...], id_: int, limit: int, options: SearchOptions, forbidden: Sequence[int], prefix: Sequence[int]
) -> bool:
    """Whether `id_` may come after `ids`, each rule written out."""
    if len(ids) < len(prefix):
        return id_ == prefix[len(ids)]
    if id_ == EOS:
        return True
    n, longer = options.no_repeat_ngram, (*ids, id_)
    ngrams = [longer[i : i + n] for i in range(len(longer) - n + 1)] if n else []
    return len(ids) < limit and id_ not in forbidden and (len(ngrams) < 2 or ngrams[-1] not in ngrams[:-1])


def slow_beam(
    model: ToyModel,
    source: int,
    limit: int,
    options: SearchOptions,
    forbidden: Sequence[int] = (),
    prefix: Sequence[int] = (),
) -> list[Scored]:
    """Beam search on lists, group after group.

    With "exact" it never stops before the limit, unless groups may have to fill up with more than they go on for.
    """
    n_groups = options.diversity_groups
    width = options.beam // n_groups

    def better_to_come(going: list[Scored], done: list[Scored]) -> bool:
        """Whether a group's best prefix could still become one of its `width` best."""
        places = sorted((score for _, score in done), reverse=True)
        bound = max((log_prob for _, log_prob in going), default=-math.inf) / options.penalty(limit + 1)
        return bool(going) and (len(places) < width or bound > places[width - 1])

    live: list[list[Scored]] = [[((), 0.0)] for _ in range(n_groups)]
    ended: list[list[Scored]] = [[] for _ in range(n_groups)]
    for _ in range(limit + 1):
        chosen: list[int] = []
        for group in range(n_groups):
            candidates = []
            for ids, log_prob in live[group]:
                for id_, value in enumerate(model.log_probs(source, ids)):
                    if permitted(ids, id_, limit, options, forbidden, prefix):
                        candidates.append(((*ids, id_), log_prob + value))
            # stable: equal ones stay in the order of prefix, then id
            candidates.sort(key=lambda entry: -entry[1] + options.diversity * chosen.count(entry[0][-1]))
            for ids, log_prob in candidates[:width]:
                if ids[-1] == EOS:
                    ended[group].append((ids[:-1], log_prob / options.penalty(len(ids))))
            live[group] = [entry for entry in candidates if entry[0][-1] != EOS][:width]
            chosen += [ids[-1] for ids, _ in live[group]]
        if options.stopping == "first" and all(
            len(done) >= width or not going for done, going in zip(ended, live, strict=True)
        ):
            break
        if options.stopping == "exact" and options.n_best > width and not any(map(better_to_come, live, ended)):
            break
    kept: list[Scored] = []
    for rank in range(max(map(len, ended))):
        ranked = [sorted(done, key=lambda entry: -entry[1])[rank] for done in ended if len(done) > rank]
        for entry in sorted(ranked, key=lambda entry: -entry[1]):
            if len(kept) < options.n_best and entry[0] not in [ids for ids, _ in kept]:
                kept.append(entry)
    return sorted(kept, key=lambda entry: -entry[1])
