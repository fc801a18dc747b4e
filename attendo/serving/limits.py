"""What a server bears, what one request may ask of it, and how it says no."""

from dataclasses import dataclass
from typing import Annotated

from attendo.config import ABOVE_ZERO, POSITIVE, Settings
from attendo.drafting import HELD


@dataclass(frozen=True, kw_only=True)
class Limits(Settings):
    """What one request may ask for, and what the server does at once.

    body_bytes: of a request, as it is sent.
    characters: of all texts of a request together, and as many of its glossary.
    sentences: of a request, after its texts were cut; it may not have more texts either.
    beam: prefixes kept in a search, which is what a search costs.
    max_length: pieces that a request may allow the translation of a sentence.
    terms: of a request's glossary.
    held: pieces that the search for lost terms holds in one sentence, these and its numbers and so on; beyond this
        terms may get lost, with a warning, as such a search takes long.
    inspected: pieces of a sentence that is looked into, or of its translation; the maps grow with its square.
    requests: that compute at once, those that wait included.
    queue: sentences that wait, of all requests together.
    seconds: that a request may take, from its last byte on; its bytes may take as long again to come.
    """

    body_bytes: Annotated[int, POSITIVE] = 1_000_000
    characters: Annotated[int, POSITIVE] = 100_000
    sentences: Annotated[int, POSITIVE] = 2_000
    beam: Annotated[int, POSITIVE] = 10
    max_length: Annotated[int, POSITIVE] = 500
    terms: Annotated[int, POSITIVE] = 200
    held: Annotated[int, POSITIVE] = HELD
    inspected: Annotated[int, POSITIVE] = 100
    requests: Annotated[int, POSITIVE] = 72
    queue: Annotated[int, POSITIVE] = 10_000
    seconds: Annotated[float, ABOVE_ZERO] = 60.0

    @property
    def default_beam(self) -> int:
        """Of a request that does not say."""
        return min(5, self.beam)

    def require(self, limit: str, asked: int, what: str, *, status: int = 422) -> None:
        """That a request keeps within one of them."""
        value = getattr(self, limit)
        if asked > value:
            raise Refusal(
                status,
                f"{what}: more than the {value} that this server takes. Ask for less, or in several requests.",
                limit=limit,
                value=value,
            )


class Refusal(Exception):
    """What is not done, and why.

    status: of HTTP. limit, value: which limit it would pass, if that is the reason. retry_after: seconds until asking
    again makes sense, where it does.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        limit: str | None = None,
        value: float | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.limit = limit
        self.value = value
        self.retry_after = retry_after
