"""LibreTranslate's paths, so that its clients work unchanged: /translate, /languages, /detect.

As there, questions are JSON or a form, what is unknown in them is ignored, and what cannot be is a 400.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from attendo.decoding.search import SearchOptions
from attendo.documents import html
from attendo.documents.passages import Document
from attendo.serving import wire
from attendo.serving.desk import Desk
from attendo.serving.detection import Detected, Detector
from attendo.serving.limits import Refusal
from attendo.serving.service import Service, Wanted
from attendo.serving.v1 import PROBLEMS
from attendo.text.language_names import language_name

Texts = Annotated[str | list[str], Field(description="A text, or several.", examples=["A man rides a bicycle."])]
ApiKey = Annotated[str | None, Field(description="Where the server needs one.")]

MEDIA = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
MOST_FIELDS = 10_000  # of a form


class LibreQuestion(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TranslateQuestion(LibreQuestion):
    q: Texts
    source: str = Field(description="A language code, or auto.", examples=["en"])
    target: str = Field(description="A language code.", examples=["de"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, description="Further translations of each text, as far as the beam has them.")
    api_key: ApiKey = None


class DetectQuestion(LibreQuestion):
    q: str = Field(description="A text.", examples=["A man rides a bicycle."])
    api_key: ApiKey = None


class DetectedAnswer(wire.Answer):
    language: str
    confidence: float = Field(description="In percent.")


class TranslateAnswer(wire.Answer):
    """Lists where `q` is one."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedAnswer | list[DetectedAnswer] | None = None


class LanguageAnswer(wire.Answer):
    code: str
    name: str
    targets: list[str]


Q = TypeVar("Q", bound=LibreQuestion)


def router(desk: Desk) -> APIRouter:
    service = desk.service
    pairs = sorted(service.models.pairs())
    detector = Detector(sorted({source for source, _ in pairs}))
    router = APIRouter(tags=["LibreTranslate"])
    problems = {**PROBLEMS, 400: {"model": wire.Problem, "description": "The question cannot be; `error` says why."}}

    @router.get("/languages", response_model=list[LanguageAnswer], summary="What is translated into what.")
    async def languages() -> list[LanguageAnswer]:
        return [
            LanguageAnswer(
                code=code,
                name=language_name(code),
                targets=[target for source, target in pairs if source == code],
            )
            for code in sorted({code for pair in pairs for code in pair})
        ]

    @router.post(
        "/detect",
        response_model=list[DetectedAnswer],
        responses=problems,
        openapi_extra=_body(DetectQuestion),
        summary="Which of the source languages a text is in.",
    )
    async def detect(request: Request) -> list[DetectedAnswer]:
        question = await _question(request, DetectQuestion)
        desk.admit(request, question.api_key)
        service.limits.require("characters", len(question.q), "q, in characters")
        return [
            _answer(one) for one in await service.aside(lambda: detector.detect(question.q), characters=sys.maxsize)
        ]

    @router.post(
        "/translate",
        response_model=TranslateAnswer,
        responses=problems,
        openapi_extra=_body(TranslateQuestion),
        summary="Translate one text or several.",
    )
    async def translate(request: Request) -> Response:
        question = await _question(request, TranslateQuestion)
        desk.admit(request, question.api_key)
        texts = [question.q] if isinstance(question.q, str) else question.q
        service.limits.require("characters", sum(map(len, texts)), "q, in characters")
        service.limits.require("sentences", len(texts), "texts")
        detected: list[Detected] = []
        sources = [question.source] * len(texts)
        if question.source == "auto":
            possible = [source for source, target in pairs if target == question.target]
            detected = await service.aside(
                lambda: [detector.detect(text, among=possible)[0] for text in texts], characters=sys.maxsize
            )
            sources = [one.language for one in detected]
        models = {one: service.models.choose(source=one, target=question.target) for one in dict.fromkeys(sources)}
        desk.note(request, " ".join(models.values()), texts)
        n_best = min(question.alternatives + 1, service.limits.beam)
        options = SearchOptions(beam=max(service.limits.default_beam, n_best), n_best=n_best)

        async def candidates() -> list[list[str]]:
            """The translations of each text, best first."""
            found: dict[int, list[str]] = {}
            for source, model in models.items():
                places = [i for i, one in enumerate(sources) if one == source]
                make = _from_html if question.format == "html" else _from_text
                found.update(zip(places, await make(service, model, [texts[i] for i in places], options), strict=True))
            return [found[i] for i in range(len(texts))]

        found = await desk.work(request, candidates)
        best, others = [one[0] for one in found], [one[1:] for one in found]
        languages = [_answer(one) for one in detected]
        single = isinstance(question.q, str)
        answer = TranslateAnswer(
            translatedText=best[0] if single else best,
            alternatives=None if not question.alternatives else others[0] if single else others,
            detectedLanguage=None if not languages else languages[0] if single else languages,
        )
        return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")

    return router


async def _from_text(service: Service, model: str, texts: Sequence[str], options: SearchOptions) -> list[list[str]]:
    translations, _ = await service.translate(model, texts, Wanted(options=options))
    return [[candidate.text for candidate in one.candidates] for one in translations]


async def _from_html(service: Service, model: str, texts: Sequence[str], options: SearchOptions) -> list[list[str]]:
    """Passage by passage. The i-th candidate of a text has the i-th of each passage, or its last."""
    try:
        documents = await service.aside(
            lambda: [Document(text, tuple(html.passages(text))) for text in texts], characters=sum(map(len, texts))
        )
    except RecursionError:
        raise Refusal(422, "q: its markup is nested too deeply.") from None
    passages = [passage for document in documents for passage in document.passages]
    keep = [passage.keep for passage in passages]
    translations, _ = await service.translate(
        model, [passage.text for passage in passages], Wanted(options=options, keep=keep)
    )
    rest = iter(translations)
    found = []
    for document in documents:
        several = [[candidate.text for candidate in next(rest).candidates] for _ in document.passages]
        n_candidates = max(map(len, several), default=1)
        found.append([document.filled([one[min(i, len(one) - 1)] for one in several]) for i in range(n_candidates)])
    return found


def _answer(one: Detected) -> DetectedAnswer:
    return DetectedAnswer(language=one.language, confidence=round(100 * one.probability, 1))


def _body(kind: type[LibreQuestion]) -> dict[str, Any]:
    """How a question may be sent, for the description of the API."""
    content = {"schema": kind.model_json_schema()}
    return {"requestBody": {"required": True, "content": dict.fromkeys(MEDIA, content)}}


async def _question(request: Request, kind: type[Q]) -> Q:
    body = await request.body()
    sent_as = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if sent_as == "application/x-www-form-urlencoded":
            pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
            return kind.model_validate(_fields(pairs))
        if sent_as == "multipart/form-data":
            async with request.form(max_files=0, max_fields=MOST_FIELDS) as form:
                return kind.model_validate(_fields(form.multi_items()))
        if sent_as == "application/json":
            return kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise Refusal(400, wire.complaint(errors)) from None
    except ValueError:  # not UTF-8, or too many fields
        raise Refusal(400, "the body is no form in UTF-8, or has too many fields.") from None
    raise Refusal(415, f"send JSON or a form: {', '.join(MEDIA)}.")


def _fields(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The fields of a form; one that comes several times is a list."""
    fields: dict[str, list[object]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
