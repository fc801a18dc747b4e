"""attendo's own paths: /v1/translate, /v1/translate/stream, /v1/score."""

import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from attendo.decoding.search import SearchOptions
from attendo.serving import wire
from attendo.serving.desk import Desk, Event
from attendo.serving.limits import Refusal
from attendo.serving.service import GREEDY, Wanted

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": wire.Problem, "description": words}
    for status, words in {
        400: "Not JSON, or not UTF-8.",
        401: "No API key, or a wrong one.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        415: "Not sent as application/json.",
        422: "Something in the question cannot be; `error` says what.",
        429: "The API key's requests are used up for now; Retry-After says for how long.",
        503: "Too busy, or stopping; Retry-After says when to ask again.",
    }.items()
}

EVENTS = (
    "Server-sent events: `token` {text}, again and again, then `done` {model, text, sentences, warnings, terms, "
    "timing}. If something fails on the way, the last is `error` {error, limit, value}."
)
EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string", "enum": ["token", "done", "error"]}, "data": {"type": "string"}},
    "required": ["event", "data"],
}


def router(desk: Desk) -> APIRouter:
    service = desk.service
    router = APIRouter(prefix="/v1", tags=["attendo"], dependencies=[Depends(desk.require_key)], responses=PROBLEMS)

    @router.post("/translate", response_model=wire.TranslateAnswer, summary="Translate one text or several.")
    async def translate(request: Request, question: wire.TranslateQuestion) -> Response:
        began = time.perf_counter()
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        texts = _listed(question.text)
        desk.note(request, model, texts)
        wanted = Wanted(
            options=SearchOptions(beam=question.beam or service.limits.default_beam, n_best=question.n_best),
            max_length=question.max_length,
            prefix=question.prefix,
            glossary=question.glossary,
            scores=True,
        )
        translations, waited = await desk.work(request, lambda: service.translate(model, texts, wanted))
        return await service.aside(
            lambda: wire.answered(
                wire.TranslateAnswer(
                    model=model,
                    translations=[wire.TranslationAnswer.of(one) for one in translations],
                    timing=_timing(began, waited),
                )
            ),
            characters=question.n_best * sum(map(len, texts)),
        )

    @router.post(
        "/translate/stream",
        response_class=StreamingResponse,
        responses={200: {"description": EVENTS, "content": {"text/event-stream": {"schema": EVENT}}}},
        summary="Translate one text greedily, piece by piece as it comes.",
    )
    async def stream(request: Request, question: wire.StreamQuestion) -> Response:
        began = time.perf_counter()
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        desk.note(request, model, [question.text])
        wanted = Wanted(
            options=GREEDY, max_length=question.max_length, prefix=question.prefix, glossary=question.glossary
        )

        async def events() -> AsyncGenerator[Event]:
            async with contextlib.aclosing(service.stream(model, question.text, wanted)) as parts:
                async for part in parts:
                    if isinstance(part, str):
                        yield "token", wire.TokenEvent(text=part)
                    else:
                        yield "done", wire.DoneEvent.of(model, part, _timing(began, 0.0))

        return await desk.stream(request, events())

    @router.post("/score", response_model=wire.ScoreAnswer, summary="log p of given translations.")
    async def score(request: Request, question: wire.ScoreQuestion) -> Response:
        began = time.perf_counter()
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        texts, translations = _listed(question.text), _listed(question.translation)
        desk.note(request, model, texts)
        if len(texts) != len(translations):
            raise Refusal(
                422, f"text and translation: {len(texts)} and {len(translations)}; each needs its other side."
            )
        pairs = list(zip(texts, translations, strict=True))
        scores, waited = await desk.work(request, lambda: service.score(model, pairs))
        return wire.answered(
            wire.ScoreAnswer(
                model=model, scores=[wire.PairAnswer.of(one) for one in scores], timing=_timing(began, waited)
            )
        )

    return router


def _listed(text: str | list[str]) -> list[str]:
    return [text] if isinstance(text, str) else text


def _timing(began: float, waited: float) -> wire.Timing:
    return wire.Timing(waited_ms=round(1000 * waited, 1), total_ms=round(1000 * (time.perf_counter() - began), 1))
