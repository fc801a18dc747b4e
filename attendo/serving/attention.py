"""POST /v1/attention: what the model saw, considered and doubted while it translated a sentence."""

import time
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response

from attendo.serving import wire
from attendo.serving.desk import Desk
from attendo.serving.inspectors import Inspectors
from attendo.serving.v1 import PROBLEMS

Weights = list[list[float]]


class AttentionQuestion(wire.ModelQuestion):
    text: wire.Text = Field(description="A text of any length.", examples=["A man rides a bicycle."])
    sentence: int = Field(0, ge=0, description="Which of its sentences to look into, counted from 0.")
    translation: wire.Text | None = Field(
        None, description="Look at this translation, of the whole text as one sentence, instead of the model's own."
    )
    beam: int | None = Field(None, ge=1, description="Prefixes kept; 1 is greedy. [5]")
    without_heads: list[str] = Field(
        [], description="Heads that are switched off: kind.layer.head, from 1.", examples=[["cross.1.2"]]
    )
    maps: bool = Field(True, description="False: without the weights of all heads, which are most of the answer.")


class SideAnswer(wire.Answer):
    text: str
    pieces: list[str] = Field(description="As the vocabulary has them: ▁ is a space. The last is </s>, the end.")


class WordAnswer(wire.Answer):
    text: str
    start: int = Field(description="Its first character in the side's text.")
    end: int
    pieces: list[int] = Field(description="By their numbers, from 0.")


class WordsAnswer(wire.Answer):
    """Between white space; in scripts without spaces each character."""

    source: list[WordAnswer]
    target: list[WordAnswer]


class AlignmentAnswer(wire.Answer):
    from_: str = Field(
        serialization_alias="from",
        validation_alias="from",
        description="The head that was chosen on validation, cross.3.2, or a layer's mean, cross.3, or that of all.",
    )
    read: bool = Field(description="Whether a piece's weights are those of the position after it, which reads it.")
    weights: Weights = Field(description="Target pieces × source pieces.")
    word_weights: Weights = Field(description="Target words × source words.")
    words: list[tuple[int, int]] = Field(description="Source and target word that belong together.")


class MapAnswer(wire.Answer):
    rows: list[str] = Field(description="Who looks; in the decoder, the piece that is about to be written.")
    columns: list[str] = Field(description="What is looked at.")
    weights: list[list[Weights]] = Field(description="By layer, head, row and column; a row sums to one.")


class MapsAnswer(wire.Answer):
    """Null is what a model does not have: a recurrent or convolutional one has no self-attention."""

    encoder: MapAnswer | None = None
    decoder: MapAnswer | None = None
    cross: MapAnswer | None = None


class ChoiceAnswer(wire.Answer):
    piece: str
    log_prob: float | None = Field(description="log p(piece | source, what comes before)")
    probability: float


class SeenToken(ChoiceAnswer):
    alternatives: list[ChoiceAnswer] = Field(description="The likeliest pieces at this place, best first.")


class NodeAnswer(wire.Answer):
    id: int
    parent: int | None = Field(description="Null: the root.")
    step: int = Field(description="Pieces of the prefix.")
    piece: str = Field(description="Its last.")
    log_prob: float = Field(description="Of that piece.")
    total: float = Field(description="Of the whole prefix.")
    score: float = Field(description="The total with the length penalty.")
    rank: int = Field(description="Among the candidates of its step, from 1.")
    state: str = Field(description="kept: it went on. dropped: it fell out of the beam. finished: it ended.")
    best: bool = Field(description="It is on the way to the result.")


class PathAnswer(wire.Answer):
    node: int = Field(description="The last one.")
    text: str
    log_prob: float
    score: float


class RunnerUpAnswer(PathAnswer):
    finished: bool
    parts_at: int = Field(description="The first step at which it differs from the best.")
    best_piece: str = Field(description="What the best has there.")
    best_log_prob: float
    piece: str = Field(description="What it has there itself.")
    log_prob_there: float
    behind_from: int | None = Field(
        description="From this step on its total stays below the best's. Null: it was not behind where both went on."
    )


class BeamAnswer(wire.Answer):
    width: int
    nodes: list[NodeAnswer] = Field(description="Parents come before their children.")
    hypotheses: list[PathAnswer] = Field(description="What ended, best first; the first is the result.")
    runner_up: RunnerUpAnswer | None


class AttentionAnswer(wire.Answer):
    model: str
    sentences: list[str] = Field(description="The text as it was cut.")
    sentence: int
    source: SideAnswer
    target: SideAnswer
    log_prob: float | None
    score: float | None
    without_heads: list[str]
    words: WordsAnswer
    alignment: AlignmentAnswer
    attention: MapsAnswer | None
    tokens: list[SeenToken]
    beam: BeamAnswer | None = Field(description="Null where a translation was given.")
    timing: wire.Timing


def router(desk: Desk) -> APIRouter:
    service, inspectors = desk.service, Inspectors(desk.service)
    router = APIRouter(prefix="/v1", tags=["attendo"], dependencies=[Depends(desk.require_key)], responses=PROBLEMS)

    @router.post("/attention", response_model=AttentionAnswer, summary="Look inside the translation of a sentence.")
    async def attention(request: Request, question: AttentionQuestion) -> Response:
        began = time.perf_counter()
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        desk.note(request, model, [question.text])
        seen, sentences, waited = await desk.work(
            request,
            lambda: inspectors.look(
                model,
                question.text,
                question.sentence,
                question.translation,
                beam=question.beam or service.limits.default_beam,
                without=question.without_heads,
                maps=question.maps,
            ),
        )
        timing = wire.Timing(waited_ms=round(1000 * waited, 1), total_ms=round(1000 * (time.perf_counter() - began), 1))
        facts: dict[str, Any] = {"model": model, "sentences": sentences, "sentence": question.sentence, **seen}
        return await service.aside(
            lambda: _answered(AttentionAnswer(**facts, timing=timing)), characters=1_000_000 * question.maps
        )

    return router


def _answered(answer: AttentionAnswer) -> Response:
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")
