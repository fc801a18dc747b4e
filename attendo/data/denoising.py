"""Text and a spoiled copy of it, from which a model learns to mend: as T5 and as BART do it.

What is spoiled in epoch e is a function of (seed, e, number of the block) alone, so that a resumed run and every
process of a team see the same, and nothing has to be saved.
"""

import numpy as np
from numpy.typing import NDArray

from attendo.data.batch import Batch, make_batch
from attendo.data.batching import Indices, Lengths
from attendo.data.masking import packed
from attendo.data.noise_settings import SENTINELS, BartNoise, SpanNoise
from attendo.data.store import Side

Numbers = NDArray[np.int64]
Random = np.random.Generator
Spoiled = tuple[Numbers, Numbers]  # source and target ids


class NoisyPairs:
    """Blocks of neighbouring lines, at most `max_length` ids each, as pairs: spoiled, and what is to be told.

    `first_extra` is the first id after those of the tokenizer: the mask of BART, the first sentinel of T5.
    """

    def __init__(
        self, side: Side, noise: SpanNoise | BartNoise, *, first_extra: int, max_length: int, seed: int
    ) -> None:
        self.side, self.noise, self.first_extra, self.seed = side, noise, first_extra, seed
        self.bounds = packed(side.lengths(), max_length)  # of blocks, in lines
        self._lengths: tuple[int, tuple[Lengths, Lengths]] | None = None

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        if self._lengths is None or self._lengths[0] != epoch:
            made = [self._pair(number, epoch) for number in range(len(self.bounds) - 1)]
            sizes = np.array([(len(source), len(target)) for source, target in made], dtype=np.int32)
            self._lengths = epoch, (sizes[:, 0], sizes[:, 1])
        return self._lengths[1]

    def batch(self, indices: Indices, epoch: int) -> Batch:
        pairs = [self._pair(int(number), epoch) for number in indices]
        return make_batch([source for source, _ in pairs], [target for _, target in pairs])

    def _pair(self, number: int, epoch: int) -> Spoiled:
        first, last = self.bounds[number : number + 2]
        lines = [self.side[i].astype(np.int64) for i in range(first, last)]
        key = np.array([(self.seed * 0x9E3779B97F4A7C15 + epoch) % 2**64, number], dtype=np.uint64)
        random = np.random.Generator(np.random.Philox(key=key))
        if isinstance(self.noise, SpanNoise):
            return span_corruption(np.concatenate(lines), self.noise, random, first_sentinel=self.first_extra)
        return bart_corruption(lines, self.noise, random, mask=self.first_extra)


def span_corruption(ids: Numbers, noise: SpanNoise, random: Random, *, first_sentinel: int) -> Spoiled:
    """T5's objective: spans are replaced by one sentinel each, and the target lists them.

        Thank you for inviting me to your party last week
        source: Thank you <1> me to your party <2> week        target: <1> for inviting <2> last <3>

    As in T5's own code: round(rate · n) ids in round(that / span) spans, both at least 1; the lengths of spans and of
    what stands between them are random partitions, and the text begins with what is kept.
    """
    n = len(ids)
    if n < 2:
        return ids, np.array([first_sentinel], dtype=np.int64)
    n_noise = min(max(round(n * noise.rate), 1), n - 1)
    n_spans = min(max(round(n_noise / noise.span), 1), n - n_noise, SENTINELS - 1)
    kept, hidden = _partition(n - n_noise, n_spans, random), _partition(n_noise, n_spans, random)
    source: list[Numbers] = []
    target: list[Numbers] = []
    place = 0
    for number, (n_kept, n_hidden) in enumerate(zip(kept, hidden, strict=True)):
        sentinel = np.array([first_sentinel + number], dtype=np.int64)
        source += [ids[place : place + n_kept], sentinel]
        target += [sentinel, ids[place + n_kept : place + n_kept + n_hidden]]
        place += n_kept + n_hidden
    target.append(np.array([first_sentinel + n_spans], dtype=np.int64))
    return np.concatenate(source), np.concatenate(target)


def _partition(total: int, parts: int, random: Random) -> list[int]:
    """`total` as the sum of so many numbers of at least 1, each way equally likely."""
    cuts = np.sort(random.choice(total - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.zeros(0, dtype=np.int64)
    return np.diff(np.concatenate(([0], cuts, [total]))).tolist()


def bart_corruption(lines: list[Numbers], noise: BartNoise, random: Random, *, mask: int) -> Spoiled:
    """BART's transformations (Lewis et al. 2020, 2.2), in this order; the target is the text as it was.

    permutation: the lines, which are sentences here, in any order. infilling: spans whose lengths are drawn from a
    Poisson distribution become one mask each, those of length 0 insert one. masking: single ids become masks.
    deletion: single ids vanish. rotation: the text begins at any id, and its beginning comes after its end.
    """
    target = np.concatenate(lines)
    order = random.permutation(len(lines)) if noise.permutation else np.arange(len(lines))
    source = np.concatenate([lines[i] for i in order])
    if noise.infilling:
        source = _infilled(source, noise, random, mask=mask)
    if noise.masking:
        source = np.where(random.random(len(source)) < noise.masking, mask, source)
    if noise.deletion:
        left = source[random.random(len(source)) >= noise.deletion]
        source = left if len(left) else source[:1]
    if noise.rotation:
        source = np.roll(source, -int(random.integers(len(source))))
    return source, target


def _infilled(ids: Numbers, noise: BartNoise, random: Random, *, mask: int) -> Numbers:
    """Spans are drawn until they hold the wanted share of the ids; they neither overlap nor touch.

    Where so little stays that there are too few places for them, some are as long as several.
    """
    wanted = round(noise.infilling * len(ids))
    lengths: list[int] = []
    while sum(lengths) < wanted:
        lengths.append(min(int(random.poisson(noise.span)), wanted - sum(lengths)))
    # The ids that stay, and each span as one thing, in any order in which no two spans are neighbours.
    stay = len(ids) - sum(lengths)
    lengths, others = lengths[: stay + 1], lengths[stay + 1 :]
    for number, length in enumerate(others):
        lengths[number % len(lengths)] += length
    gaps: list[int] = np.sort(random.choice(stay + 1, len(lengths), replace=False)).tolist()
    parts: list[Numbers] = []
    place = kept = 0
    for gap, length in zip(gaps, lengths, strict=True):
        parts += [ids[place : place + gap - kept], np.array([mask], dtype=np.int64)]
        place += gap - kept + length
        kept = gap
    return np.concatenate([*parts, ids[place:]])
