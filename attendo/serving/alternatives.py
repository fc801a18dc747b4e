"""POST /v1/alternatives: what else could stand in the place of a word."""

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response

from attendo.decoding.search import SearchOptions
from attendo.serving import wire
from attendo.serving.desk import Desk
from attendo.serving.service import Wanted
from attendo.serving.v1 import PROBLEMS


class AlternativesQuestion(wire.ModelQuestion):
    text: wire.Text = Field(description="A text of any length.", examples=["A man rides a bicycle."])
    sentence: int = Field(0, ge=0, description="Of which of its sentences, counted from 0.")
    prefix: wire.Text = Field(
        "",
        description="What the sentence's translation begins with. After white space, what comes next begins a word.",
        examples=["Ein Mann "],
    )
    glossary: wire.Terms = None


class AlternativeAnswer(wire.Answer):
    probability: float = Field(description="Of the piece that comes next, given what comes before.")
    translation: wire.CandidateAnswer = Field(description="Of the sentence, from its beginning.")


class AlternativesAnswer(wire.Answer):
    model: str
    alternatives: list[AlternativeAnswer] = Field(description="At most five, each with another next piece.")


def router(desk: Desk) -> APIRouter:
    service = desk.service
    router = APIRouter(prefix="/v1", tags=["attendo"], dependencies=[Depends(desk.require_key)], responses=PROBLEMS)

    @router.post(
        "/alternatives", response_model=AlternativesAnswer, summary="How else a translation could go on after a prefix."
    )
    async def alternatives(request: Request, question: AlternativesQuestion) -> Response:
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        desk.note(request, model, [question.text])
        options = SearchOptions(beam=service.limits.default_beam)
        wanted = Wanted(options=options, prefix=question.prefix, glossary=question.glossary, scores=True)
        found = await desk.work(request, lambda: service.alternatives(model, question.text, question.sentence, wanted))
        return wire.answered(
            AlternativesAnswer(
                model=model,
                alternatives=[
                    AlternativeAnswer(probability=one.probability, translation=wire.CandidateAnswer.of(one.candidate))
                    for one in found
                ],
            )
        )

    return router
