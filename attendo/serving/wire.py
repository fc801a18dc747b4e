"""What is sent to the server and what it answers, as JSON."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from attendo.drafting import Candidate, Translation
from attendo.serving.limits import Refusal
from attendo.text.cautions import CautionKind
from attendo.translator import PairScore


class Question(BaseModel):
    """What is unknown is refused, and a number in quotes is a text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelQuestion(Question):
    """Which model is meant: by name, or by its languages where that is enough."""

    model: str | None = Field(None, description="A model's name. Not needed where the languages leave one.")
    source: str | None = Field(None, description="The source's language code, such as en.", examples=["en"])
    target: str | None = Field(None, description="The target's language code, such as de.", examples=["de"])


def _whole(text: str) -> str:
    """JSON can bring half of a surrogate pair, which no UTF-8 can carry."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("half of a surrogate pair, which no text can hold; remove it")
    return text


Text = Annotated[str, AfterValidator(_whole)]
Texts = Annotated[
    Text | list[Text], Field(description="A text of any length, or several.", examples=["A man rides a bicycle."])
]
Length = Annotated[
    int | None,
    Field(ge=1, description="Longest translation of a sentence, in pieces. [its source's and 50]"),
]
Prefix = Annotated[Text | None, Field(description="What the translation of each text begins with.")]
Terms = Annotated[
    dict[Text, Text] | None,
    Field(description="Source terms and how they are to be translated.", examples=[{"bicycle": "Rad"}]),
]


class TranslateQuestion(ModelQuestion):
    text: Texts
    beam: int | None = Field(None, ge=1, description="Prefixes kept; 1 is greedy. [5]")
    n_best: int = Field(1, ge=1, description="Candidates for each text; at most the beam.")
    max_length: Length = None
    prefix: Prefix = None
    glossary: Terms = None


class StreamQuestion(ModelQuestion):
    text: Text = Field(description="A text of any length.", examples=["A man rides a bicycle."])
    max_length: Length = None
    prefix: Prefix = None
    glossary: Terms = None


class ScoreQuestion(ModelQuestion):
    text: Texts
    translation: Text | list[Text] = Field(description="As many as there are texts.", examples=["Ein Mann fährt Rad."])


class Answer(BaseModel):
    """Numbers that are none, as log p of what a model thinks impossible, become null."""

    model_config = ConfigDict(frozen=True)


class PieceAnswer(Answer):
    piece: str = Field(description="As the vocabulary has it: ▁ is a space. Empty: the end of a sentence.")
    log_prob: float | None = Field(description="log p(piece | source, what comes before)")
    confidence: float | None = Field(description="The same as a probability.")


class CandidateAnswer(Answer):
    text: str
    log_prob: float | None = Field(description="log p(text | source), natural logarithm.")
    score: float | None = Field(description="log_prob with the length penalty, by which candidates are ordered.")
    finished: bool = Field(description="False: cut at the longest permitted length.")
    pieces: list[PieceAnswer]

    @classmethod
    def of(cls, one: Candidate) -> "CandidateAnswer":
        return cls(
            text=one.text,
            log_prob=one.log_prob,
            score=one.score,
            finished=one.finished,
            pieces=[
                PieceAnswer(piece=each.piece, log_prob=each.log_prob, confidence=math.exp(each.log_prob))
                for each in one.pieces
            ],
        )


class WarningAnswer(Answer):
    kind: CautionKind
    message: str


class TermAnswer(Answer):
    source: str
    target: str
    used: bool


class TranslationAnswer(Answer):
    text: str = Field(description="The best candidate's.")
    candidates: list[CandidateAnswer] = Field(description="Best first.")
    sentences: int = Field(description="In so many parts the text was translated.")
    warnings: list[WarningAnswer]
    terms: list[TermAnswer] = Field(description="The glossary's terms that the text has, and whether they were used.")

    @classmethod
    def of(cls, one: Translation) -> "TranslationAnswer":
        return cls(
            text=one.text,
            candidates=[CandidateAnswer.of(candidate) for candidate in one.candidates],
            sentences=one.parts,
            warnings=warnings_of(one),
            terms=terms_of(one),
        )


class Timing(Answer):
    waited_ms: float = Field(description="Until the first sentence's turn came.")
    total_ms: float


class TranslateAnswer(Answer):
    model: str
    translations: list[TranslationAnswer] = Field(description="One for each text, in their order.")
    timing: Timing


class TokenEvent(Answer):
    """Of a stream: `event: token`."""

    text: str


class DoneEvent(Answer):
    """The last of a stream: `event: done`."""

    model: str
    text: str = Field(description="All tokens together.")
    sentences: int
    warnings: list[WarningAnswer]
    terms: list[TermAnswer]
    timing: Timing

    @classmethod
    def of(cls, model: str, one: Translation, timing: Timing) -> "DoneEvent":
        return cls(
            model=model,
            text=one.text,
            sentences=one.parts,
            warnings=warnings_of(one),
            terms=terms_of(one),
            timing=timing,
        )


class PairAnswer(Answer):
    log_prob: float | None = Field(
        description="log p(translation | text), natural logarithm, with the end of sentence."
    )
    pieces: int = Field(description="Of the translation, end of sentence included.")

    @classmethod
    def of(cls, one: PairScore) -> "PairAnswer":
        return cls(log_prob=one.log_prob, pieces=one.n_pieces)


class ScoreAnswer(Answer):
    model: str
    scores: list[PairAnswer]
    timing: Timing


class Problem(Answer):
    """Why there is no answer."""

    error: str
    limit: str | None = Field(None, description="The limit that the request would pass.")
    value: int | float | None = Field(None, description="The limit's value.")


class State(Answer):
    status: str


def warnings_of(one: Translation) -> list[WarningAnswer]:
    return [WarningAnswer(kind=each.kind, message=each.message) for each in one.warnings]


def terms_of(one: Translation) -> list[TermAnswer]:
    return [TermAnswer(source=each.source, target=each.target, used=each.used) for each in one.terms]


def answered(answer: Answer, *, status: int = 200) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


def server_sent(event: str, data: Answer) -> bytes:
    """One event of a stream. JSON has no line breaks of its own, so it is one line of data."""
    return f"event: {event}\ndata: {data.model_dump_json(exclude_none=True)}\n\n".encode()


def problem(message: str, *, limit: str | None = None, value: float | None = None) -> Problem:
    """Half of a surrogate pair, as in the name of a field, becomes a question mark."""
    return Problem(error=message.encode("utf-8", "replace").decode(), limit=limit, value=value)


def refused(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(problem.model_dump_json(exclude_none=True), status, headers=headers, media_type="application/json")


def refusal(error: Refusal) -> Response:
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return refused(error.status, problem(str(error), limit=error.limit, value=error.value), headers)


def complaint(errors: Iterable[Mapping[str, Any]]) -> str:
    """What is wrong with a question, field by field. Nothing that was sent is repeated but the names of fields."""
    said = []
    for one in itertools.islice(errors, 5):
        place = ".".join(str(part)[:60] for part in one["loc"] if part != "body")
        if one["type"] == "extra_forbidden":
            said.append(f"unknown field {place!r}")
        else:
            said.append(f"{place}: {one['msg']}" if place else str(one["msg"]))
    return "; ".join(said) + "."
