"""Which words belong together, by where cross-attention looks.

A target piece belongs to the source piece that it looks at most, and two words belong together if pieces of them do.
Not every head says so: which one does, or which mean of several, is a `View`, chosen on validation pairs.

Suffixes: B sentences, H heads, T target pieces and EOS, S source pieces and EOS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attendo.alignment.maps import Maps
from attendo.decoding.search import Ids
from attendo.drafting import Links
from attendo.text.tokenizer import Tokenizer
from attendo.text.words import word_spans

BATCH_TOKENS = 1024  # positions looked at together; all weights of all layers are held for them


@dataclass(frozen=True)
class View:
    """The cross-attention of a head; without a head the mean of a layer's; without a layer the mean of all.

    read: a piece has the weights of the position that reads it, one after the position that writes it. Once it is
    there to be read, a head can look for what it came from (Chen et al. 2020).
    """

    layer: int | None = None
    head: int | None = None
    read: bool = False

    @property
    def name(self) -> str:
        """`cross.3.2`, `cross.3` or `cross`."""
        return ".".join(["cross", *(str(part) for part in (self.layer, self.head) if part is not None)])

    @property
    def in_words(self) -> str:
        if self.layer is None:
            what = "the mean of all heads"
        else:
            what = f"the mean of layer {self.layer}" if self.head is None else f"head {self.name}"
        return f"{what}, where a piece is {'read' if self.read else 'written'}"

    def weights(self, maps: Maps) -> Tensor:
        """[B, T, S]; the last row, which nothing reads, is always that of writing."""
        layers = maps.cross if self.layer is None else maps.cross[self.layer - 1 : self.layer]
        weights_BHTS = torch.cat(layers, dim=1)
        weights_BTS = weights_BHTS.mean(dim=1) if self.head is None else weights_BHTS[:, self.head - 1]
        return torch.cat((weights_BTS[:, 1:], weights_BTS[:, -1:]), dim=1) if self.read else weights_BTS


def piece_links(weights_BTS: Tensor, source_lengths: Sequence[int], target_lengths: Sequence[int]) -> list[list[int]]:
    """For each sentence and target piece the source piece it looks at most; EOS is nobody's. Lengths are without it."""
    S = weights_BTS.shape[2]
    real_BS = torch.arange(S) < torch.tensor(source_lengths)[:, None]
    best_BT = weights_BTS.cpu().masked_fill(~real_BS[:, None], -1.0).argmax(dim=2).tolist()
    return [
        row[:n_target] if n_source else []
        for row, n_source, n_target in zip(best_BT, source_lengths, target_lengths, strict=True)
    ]


class Line:
    """A text as its characters that are no white space, each with the number of its word."""

    def __init__(self, text: str) -> None:
        spans = word_spans(text)
        self.words = [number for number, (start, end) in enumerate(spans) for _ in range(start, end)]
        self.characters = "".join(text[start:end] for start, end in spans)
        self.has_letters = [any(map(str.isalnum, text[start:end])) for start, end in spans]

    def owners(self, spelled: str, spans: Sequence[tuple[int, int]], places: Sequence[int]) -> list[int | None]:
        """The word of each piece: that of its first letter or digit.

        spelled, spans: the text of a sentence and where its pieces stand in it. places: where each of its characters
        that are no white space stands among this line's. Punctuation belongs to a word of nothing else
        only: that two sentences end with a full stop does not link their last words.
        """
        solid = iter(places)
        at = [None if character.isspace() else next(solid) for character in spelled]
        found: list[int | None] = []
        for start, end in spans:
            inside = [(spelled[i], at[i]) for i in range(start, min(end, len(spelled)))]
            letters = [place for character, place in inside if place is not None and character.isalnum()]
            others = [place for _, place in inside if place is not None and not self.has_letters[self.words[place]]]
            first = next(iter(letters or others), None)
            found.append(None if first is None else self.words[first])
        return found


def solid(text: str) -> str:
    """Without white space."""
    return "".join(text.split())


def places_of(line: Line, start: int, text: str, things: Sequence[str]) -> tuple[list[int], int]:
    """Where the characters of a sentence stand in its line, which has the things besides; and where the rest begins."""
    waiting = [solid(one) for one in things]

    def after_things(place: int) -> int:
        while found := next((one for one in waiting if line.characters.startswith(one, place)), None):
            waiting.remove(found)
            place += len(found)
        return place

    places = []
    for _ in solid(text):
        start = after_things(start)
        places.append(start)
        start += 1
    return places, after_things(start)


def linked(
    pieces: Sequence[int], source_owners: Sequence[int | None], target_owners: Sequence[int | None]
) -> Iterator[tuple[int, int]]:
    """(source word, target word) for each target piece, by the source piece that belongs to it."""
    for place, target in zip(pieces, target_owners, strict=True):
        source = source_owners[place]
        if source is not None and target is not None:
            yield source, target


def owners(
    tokenizer: Tokenizer, line: Line, text: str, ids: Ids, places: Sequence[int] | None = None
) -> list[int | None]:
    """The word of each of a sentence's pieces in its line; without places the sentence is the line."""
    return line.owners(text, tokenizer.places(text, ids), range(len(line.characters)) if places is None else places)


def pharaoh(links: Links) -> str:
    """`0-0 1-2 …`: source and target words that belong together, by their numbers."""
    return " ".join(f"{source}-{target}" for source, target in links)
