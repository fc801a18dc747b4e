"""Text with gaps, for a model that fills them.

What is hidden of a text in epoch e is a function of (seed, e, place in the text) alone, so that a resumed run and every
process of a team see the same, and nothing has to be saved.
"""

import unicodedata
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from attendo.data.batch import pad
from attendo.data.batching import Indices, Lengths
from attendo.data.noise_settings import MaskNoise
from attendo.data.resampling import mixed
from attendo.data.store import Ids, Side
from attendo.data.text_batch import NOTHING, TextBatch, segments_batch
from attendo.errors import DataError
from attendo.text.tokenizer import CONTROLS, SPACELESS, Tokenizer

Numbers = NDArray[np.int64]
CHOOSING, KEEPING, REPLACING, CUTTING, FOLLOWING, SWAPPING = range(6)  # what a random number is for
PURPOSES = 8  # between the seeds of two runs


@dataclass(frozen=True)
class Segments:
    """Where the first and the second text of each row stand in the ids, and whether the second follows the first."""

    epoch: int
    first: NDArray[np.int64]  # [rows, 2]: from, to
    second: NDArray[np.int64]
    follows: NDArray[np.int64]


class MaskedRows:
    """Blocks of neighbouring lines, as many as fit into `max_length` with the control ids, with gaps in them.

    With `next_sentence` a block is cut into two segments between two lines, and in half of the rows the second segment
    is that of another block. The mask is the id after those of the tokenizer.
    """

    def __init__(self, side: Side, tokenizer: Tokenizer, noise: MaskNoise, *, max_length: int, seed: int) -> None:
        controls = 3 if noise.next_sentence else 2
        self.room = max_length - controls
        if self.room < 2:
            raise DataError(f"data.max_length = {max_length}: with {controls} control ids there is no room for text.")
        self.side, self.noise, self.seed = side, noise, seed
        self.vocab_size = tokenizer.vocab_size
        self.words = WordBorders(tokenizer) if noise.whole_words else None
        self.bounds = packed(side.lengths(), self.room)  # of blocks, in lines
        self._segments: Segments | None = None

    def check(self) -> None:
        """That there is something to learn from two segments, where they are asked for."""
        if not self.noise.next_sentence:
            return
        if np.diff(self.bounds).max() < 2:
            raise DataError(
                "noise.next_sentence = True: no two neighbouring lines fit into a row, so that nothing ever follows. "
                "Make data.max_length larger, or the lines shorter."
            )
        if len(self.bounds) < 3:
            raise DataError(
                "noise.next_sentence = True: all of the text fits into one row, so that there is nothing that does not "
                "follow. Give more text, or make data.max_length smaller."
            )

    def lengths(self, epoch: int) -> tuple[Lengths, Lengths]:
        found = self._drawn(epoch)
        sizes = np.diff(found.first).sum(1) + np.diff(found.second).sum(1) + (2 if self.noise.next_sentence else 1)
        return sizes.astype(np.int32), np.zeros(len(sizes), dtype=np.int32)

    def batch(self, indices: Indices, epoch: int) -> TextBatch:
        found = self._drawn(epoch)
        chosen = np.asarray(indices, dtype=np.int64)
        firsts, seconds = found.first[chosen], found.second[chosen]
        rows = [self._hidden(start, stop, epoch) for start, stop in firsts.tolist()]
        more = [self._hidden(start, stop, epoch) for start, stop in seconds.tolist()]
        batch = segments_batch([ids for ids, _ in rows], [ids for ids, _ in more] if self.noise.next_sentence else None)
        asked = [
            [NOTHING, *first, NOTHING, *([*second, NOTHING] if len(second) else ())]
            for (_, first), (_, second) in zip(rows, more, strict=True)
        ]
        targets_BT = torch.full_like(batch.ids_BT, NOTHING)
        real_BT = torch.arange(targets_BT.shape[1]) < batch.lengths_B[:, None]
        targets_BT[real_BT] = pad(asked)[real_BT]
        batch = replace(batch, targets_BT=targets_BT)
        if not self.noise.next_sentence:
            return batch
        # The loss is a mean over what is hidden: so weighted, the labels' own mean is added to it.
        follows_B = torch.from_numpy(found.follows[chosen])
        return replace(batch, labels_B=follows_B, label_weight=batch.n_targets / len(follows_B))

    def _hidden(self, start: int, stop: int, epoch: int) -> tuple[Numbers, Numbers]:
        """(the ids with gaps, the ids to be told or NOTHING) of a stretch of the text."""
        ids, places = self.side.ids[start:stop].astype(np.int64), np.arange(start, stop, dtype=np.uint64)
        if len(ids) == 0:
            return ids, ids
        units = places
        if self.words is not None:  # all pieces of a word share the number of its first
            units = places[np.maximum.accumulate(np.where(self.words.begin(ids), np.arange(len(ids)), 0))]
        ordinary = ids >= len(CONTROLS)  # <unk> tells nothing
        chosen = ordinary & (self._uniform(units, CHOOSING, epoch) < self.noise.rate)
        draw = self._uniform(places, KEEPING, epoch)
        pieces = self.vocab_size - len(CONTROLS)
        any_piece = len(CONTROLS) + (self._random(places, REPLACING, epoch) % np.uint64(pieces)).astype(np.int64)
        masked, replaced = self.noise.masked, self.noise.masked + self.noise.replaced
        shown = np.where(draw < masked, self.vocab_size, np.where(draw < replaced, any_piece, ids))
        return np.where(chosen, shown, ids), np.where(chosen, ids, NOTHING)

    def _drawn(self, epoch: int) -> Segments:
        if self._segments is None or self._segments.epoch != epoch:
            self._segments = self._draw(epoch)
        return self._segments

    def _draw(self, epoch: int) -> Segments:
        ends = np.concatenate(([0], self.side.ends))
        first, last = self.bounds[:-1], self.bounds[1:]  # lines of each block
        nothing = np.zeros((len(first), 2), dtype=np.int64)
        if not self.noise.next_sentence:
            return Segments(epoch, np.stack((ends[first], ends[last]), 1), nothing, nothing[:, 0])
        blocks = np.arange(len(first), dtype=np.uint64)
        lines = last - first
        places = self._random(blocks, CUTTING, epoch) % np.maximum(lines - 1, 1).astype(np.uint64)
        cut = first + 1 + places.astype(np.int64)
        alone = lines == 1
        follows = (self._uniform(blocks, FOLLOWING, epoch) < 0.5) & ~alone
        away = 1 + (self._random(blocks, SWAPPING, epoch) % np.uint64(max(1, len(first) - 1))).astype(np.int64)
        other = (np.arange(len(first)) + away) % len(first)  # never the block itself
        begin_second = np.where(alone, first, cut)  # of a block that is one line, all of it
        source = np.where(follows, np.arange(len(first)), other)
        starts, stops = ends[first], ends[np.where(alone, last, cut)]
        second_starts, second_stops = ends[begin_second[source]], ends[last[source]]
        # Where both together are too long, the second keeps a half at least, and the first the rest.
        stops = np.minimum(stops, starts + np.maximum(self.room // 2, self.room - (second_stops - second_starts)))
        second_stops = np.minimum(second_stops, second_starts + self.room - (stops - starts))
        return Segments(
            epoch,
            np.stack((starts, stops), 1),
            np.stack((second_starts, second_stops), 1),
            follows.astype(np.int64),
        )

    def _random(self, numbers: NDArray[np.uint64], purpose: int, epoch: int) -> NDArray[np.uint64]:
        return mixed(numbers, PURPOSES * self.seed + purpose, epoch)

    def _uniform(self, numbers: NDArray[np.uint64], purpose: int, epoch: int) -> NDArray[np.float64]:
        """In [0, 1)."""
        bits = self._random(numbers, purpose, epoch) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53


class WordBorders:
    """Where words begin among pieces: after a space, and between letters, numbers and the rest.

    But not where a piece says that it goes on (WordPiece's ##). In scripts without spaces every piece is a word, but
    for parts of characters.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        spellings = tokenizer.spellings()
        self.spaced = np.array([spelled.startswith(" ") for spelled in spellings])
        self.goes_on = np.array(tokenizer.continuing())
        self.first = np.array([_kind(spelled.lstrip(" ")[:1]) for spelled in spellings])
        self.last = np.array([_kind(spelled[-1:]) for spelled in spellings])

    def begin(self, ids: Numbers) -> NDArray[np.bool_]:
        """For each of the ids whether a word begins with it."""
        first, before = self.first[ids], np.concatenate(([NO_KIND], self.last[ids[:-1]]))
        # A space that is a piece of its own belongs to what comes after it.
        border = ((first != before) & ~self.goes_on[ids]) | (first == ALONE)
        return self.spaced[ids] | (border & (before != SPACE))


LETTERS, DIGITS, ALONE, OTHERS, SPACE, NO_KIND = range(6)  # kinds of characters
JOINING = ("\N{ZERO WIDTH NON-JOINER}", "\N{ZERO WIDTH JOINER}", "\N{REPLACEMENT CHARACTER}")


def _kind(character: str) -> int:
    """Marks on a letter, what joins letters, and a part of a character are of a word; and so is nothing at all."""
    if not character or character in JOINING:
        return LETTERS
    category = unicodedata.category(character)[0]
    if category == "N":
        return DIGITS
    if SPACELESS.match(character):
        return ALONE
    if character == " ":
        return SPACE
    return LETTERS if category in "LM" else OTHERS


def packed(lengths: Lengths, room: int) -> Numbers:
    """Where blocks of neighbouring lines begin, and where the last ends: each as long as there is room."""
    bounds, filled = [0], 0
    for number, length in enumerate(lengths.tolist()):
        if filled and filled + length > room:
            bounds.append(number)
            filled = 0
        filled += length
    return np.array([*bounds, len(lengths)], dtype=np.int64)


def side_of(rows: list[list[int]]) -> Side:
    """Sequences that are in memory, as a store has them."""
    ids: Ids = np.array([id_ for row in rows for id_ in row], dtype=np.uint32)
    return Side(ids, np.cumsum([len(row) for row in rows], dtype=np.int64))
