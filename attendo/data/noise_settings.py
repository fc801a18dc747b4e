"""What is hidden from a model that learns from text alone. Without torch, so that a bundle can be opened without it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from attendo.config import NOT_NEGATIVE, PROBABILITY, Rule, Settings

RATE = Rule("must be greater than 0 and less than 1", lambda value: 0 < value < 1)
SPAN = Rule("must be at least 1", lambda value: value >= 1)

SENTINELS = 100  # as many as T5 has


@dataclass(frozen=True, kw_only=True)
class MaskNoise(Settings):
    """BERT's (Devlin et al. 2019): of all tokens a share is chosen, and the model has to tell what they were."""

    kind: Literal["mask"] = "mask"
    rate: Annotated[float, RATE] = 0.15  # of all tokens, chosen
    masked: Annotated[float, PROBABILITY] = 0.8  # of the chosen, replaced by the mask
    replaced: Annotated[float, PROBABILITY] = 0.1  # of the chosen, replaced by any piece; the rest stays as it is
    whole_words: bool = False  # words are chosen instead of pieces
    next_sentence: bool = False  # two segments: does the second follow the first?

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.masked + self.replaced > 1:
            yield "masked", f"and replaced ({self.replaced}) are shares of the chosen, so they are at most 1 together"


@dataclass(frozen=True, kw_only=True)
class SpanNoise(Settings):
    """T5's (Raffel et al. 2020): spans become sentinels, and the target is each sentinel with what it stands for."""

    kind: Literal["t5"] = "t5"
    rate: Annotated[float, RATE] = 0.15  # of all tokens, in spans
    span: Annotated[float, SPAN] = 3.0  # mean length of a span


@dataclass(frozen=True, kw_only=True)
class BartNoise(Settings):
    """BART's (Lewis et al. 2020): the source is a text with noise of several kinds, the target the text itself.

    The paper's own choice is infilling and permutation; the other kinds are those it compares.
    """

    kind: Literal["bart"] = "bart"
    infilling: Annotated[float, PROBABILITY] = 0.3  # of the tokens, in spans of which each becomes one mask
    span: Annotated[float, SPAN] = 3.0  # mean length of such a span: λ of a Poisson distribution
    masking: Annotated[float, PROBABILITY] = 0.0  # of the tokens, each replaced by a mask
    deletion: Annotated[float, PROBABILITY] = 0.0  # of the tokens, left out
    permutation: bool = True  # sentences in any order
    rotation: bool = False  # begins at any token

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if not (self.infilling or self.masking or self.deletion or self.permutation or self.rotation):
            yield "infilling", "some noise is needed: all kinds are off"


@dataclass(frozen=True, kw_only=True)
class PictureNoise(Settings):
    """How pictures are changed before a model sees them, in another way in each epoch."""

    kind: Literal["pictures"] = "pictures"
    shift: Annotated[float, PROBABILITY] = 0.0  # at most, to each side, as a share of the size
    rotate: Annotated[float, NOT_NEGATIVE] = 0.0  # at most, to each side, in degrees
    zoom: Annotated[float, PROBABILITY] = 0.0  # at most, smaller or larger, as a share
    flip: bool = False  # left and right change places in half of the pictures
    erase: Annotated[float, PROBABILITY] = 0.0  # of the pictures, in which a rectangle is made grey

    @property
    def moves(self) -> bool:
        return bool(self.shift or self.rotate or self.zoom or self.flip)


NoiseConfig = MaskNoise | SpanNoise | BartNoise | PictureNoise
