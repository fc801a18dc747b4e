"""BPE-dropout: the same text in other pieces (Provilkov et al. 2020)."""

from collections.abc import Callable, Sequence

from attendo.text.tokenizer import Tokenizer


class Merger:
    """A tokenizer's merges, on ids: characters become pieces, and each possible merge may be left out.

    Pieces of a word are merged by the rank of what they become, best first. At every step each merge that is possible
    is left out with probability `rate`; where none is left, the word stays as it is. Rate 0 is the tokenizer's own
    segmentation, rate 1 the characters.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        numbers = {piece: id for id, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}
        self._merges: dict[tuple[int, int], tuple[int, int]] = {  # two pieces -> rank, and what they become
            (numbers[left], numbers[right]): (rank, numbers[left + right])
            for rank, (left, right) in enumerate(tokenizer.merges())
        }
        parts = {merged: pair for pair, (_, merged) in reversed(self._merges.items())}
        self._characters: list[list[int]] = [[id] for id in range(tokenizer.vocab_size)]
        for merged, (left, right) in sorted(parts.items(), key=lambda item: self._merges[item[1]]):
            self._characters[merged] = self._characters[left] + self._characters[right]

    def characters(self, ids: Sequence[int]) -> list[int]:
        """The ids of the characters that these pieces were merged from; bytes stay bytes."""
        return [character for id in ids for character in self._characters[id]]

    def merged(self, characters: Sequence[int], rate: float, draw: Callable[[], float]) -> list[int]:
        """One word's characters as pieces; `draw` gives the next number, uniform in [0, 1)."""
        pieces, merges = list(characters), self._merges
        while len(pieces) > 1:
            best, places = None, []
            for place in range(len(pieces) - 1):
                found = merges.get((pieces[place], pieces[place + 1]))
                if found is None or draw() < rate:
                    continue
                if best is None or found < best:
                    best, places = found, [place]
                elif found == best:
                    places.append(place)
            if best is None:
                break
            shift, last = 0, -2
            for place in places:
                if place - last > 1:  # of "aaa" the first two
                    pieces[place - shift : place - shift + 2] = [best[1]]
                    shift, last = shift + 1, place
        return pieces
