"""POST /v1/document: a whole file, of which only the text is written anew."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from attendo.decoding.search import SearchOptions
from attendo.documents.document import parse_document
from attendo.serving import wire
from attendo.serving.desk import Desk, Event
from attendo.serving.service import Wanted
from attendo.serving.v1 import PROBLEMS

PASSAGES = 20  # translated together, and then progress is told

EVENTS = (
    "Server-sent events: `progress` {done, of}, in passages, again and again, then `done` {model, name, content, "
    "passages, warnings, terms}. If something fails on the way, the last is `error` {error, limit, value}."
)
EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string", "enum": ["progress", "done", "error"]}, "data": {"type": "string"}},
    "required": ["event", "data"],
}

Name = Annotated[
    wire.Text,
    Field(max_length=255, description="The file's name, whose ending says what it is.", examples=["notes.md"]),
]


class DocumentQuestion(wire.ModelQuestion):
    name: Name
    content: wire.Text = Field(description="The whole file.", examples=["# A man\n\nHe rides a *bicycle*."])
    glossary: wire.Terms = None


class ProgressEvent(wire.Answer):
    done: int
    of: int


class PassageWarning(wire.WarningAnswer):
    passage: int = Field(description="Counted from 1.")


class DocumentEvent(wire.Answer):
    """The last of a stream: `event: done`."""

    model: str
    name: str
    content: str
    passages: int
    warnings: list[PassageWarning]
    terms: list[wire.TermAnswer]


def router(desk: Desk) -> APIRouter:
    service = desk.service
    router = APIRouter(prefix="/v1", tags=["attendo"], dependencies=[Depends(desk.require_key)], responses=PROBLEMS)

    @router.post(
        "/document",
        response_class=StreamingResponse,
        responses={200: {"description": EVENTS, "content": {"text/event-stream": {"schema": EVENT}}}},
        summary="Translate a file: text, Markdown, HTML, subtitles, PO or XLIFF.",
    )
    async def translate(request: Request, question: DocumentQuestion) -> Response:
        model = service.models.choose(model=question.model, source=question.source, target=question.target)
        desk.note(request, model, [question.content])

        async def events() -> AsyncGenerator[Event]:
            document = await service.aside(
                lambda: parse_document(question.name, question.content), characters=len(question.content)
            )
            passages = document.passages
            wanted = Wanted(
                options=SearchOptions(beam=service.limits.default_beam),
                glossary=question.glossary,
                keep=[one.keep for one in passages],
            )
            translations = []
            groups = service.translate_in_groups(model, [one.text for one in passages], wanted, at_once=PASSAGES)
            async with contextlib.aclosing(groups):
                async for group in groups:
                    translations += group
                    yield "progress", ProgressEvent(done=len(translations), of=len(passages))
            content = await service.aside(
                lambda: document.filled([one.text for one in translations]), characters=len(question.content)
            )
            yield (
                "done",
                DocumentEvent(
                    model=model,
                    name=_renamed(question.name, service.models.translators[model].target_language),
                    content=content,
                    passages=len(passages),
                    warnings=[
                        PassageWarning(passage=number, kind=one.kind, message=one.message)
                        for number, each in enumerate(translations, start=1)
                        for one in each.warnings
                    ],
                    terms=[term for each in translations for term in wire.terms_of(each)],
                ),
            )

        return await desk.stream(request, events())

    return router


def _renamed(name: str, language: str) -> str:
    """notes.md → notes.de.md"""
    path = PurePosixPath(name)
    return f"{path.stem}.{language or 'translated'}{path.suffix}"
