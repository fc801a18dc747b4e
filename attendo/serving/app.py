"""The HTTP application: a service, and which paths lead to it."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from attendo import __version__
from attendo.serving import about, alternatives, attention, document, front, libretranslate, reference, v1, wire
from attendo.serving.desk import Desk
from attendo.serving.gate import Gate
from attendo.serving.keys import Keys
from attendo.serving.service import Service


def build(service: Service, *, keys: Keys | None = None, cors: Sequence[str] = (), log_text: bool = False) -> FastAPI:
    """The application for a service.

    keys: who may ask for work; None is everybody. cors: origins whose pages may ask. log_text: texts get into the log.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="attendo",
        version=__version__,
        description="Translation. Whatever is not answered is refused with JSON whose `error` says why.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    desk = Desk(service, keys=keys, log_text=log_text)
    app.include_router(_operations(service))
    for part in (v1, alternatives, attention, document, about):
        app.include_router(part.router(desk))
    app.include_router(libretranslate.router(desk))
    app.include_router(front.router())
    app.include_router(_pages(app))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    described = app.openapi()["paths"]
    paths = {*described, "/", "/docs", "/openapi.json"}
    working = {path for path in described if path.startswith("/v1/") and "post" in described[path]} | {"/translate"}
    app.add_middleware(Gate, service=service, endpoints=paths, working=working)
    if cors:
        app.add_middleware(CORSMiddleware, allow_origins=list(cors), allow_methods=["GET", "POST"], allow_headers=["*"])
    return app


def _operations(service: Service) -> APIRouter:
    """For whoever runs the server."""
    router = APIRouter(tags=["operations"])

    @router.get("/health", response_model=wire.State, summary="The process is alive.")
    async def health() -> Response:
        return wire.answered(wire.State(status="ok"))

    @router.get(
        "/ready",
        response_model=wire.State,
        responses={503: {"model": wire.State, "description": "It is stopping."}},
        summary="New work is welcome.",
    )
    async def ready() -> Response:
        state = wire.State(status="stopping" if service.stopping else "ready")
        return wire.answered(state, status=503 if service.stopping else 200)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {service.metrics.content_type: {"schema": {"type": "string"}}}}},
        summary="Numbers for Prometheus.",
    )
    async def metrics() -> Response:
        return Response(service.metrics.page(), headers={"Content-Type": service.metrics.content_type})

    return router


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and not media.endswith(("/json", "+json")):  # its body was not even read as JSON
        return wire.refused(415, wire.problem("send JSON, with the header Content-Type: application/json."))
    return wire.refused(422, wire.problem(wire.complaint(error.errors())))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return wire.refused(error.status_code, wire.problem(str(error.detail)), error.headers)


def _pages(app: FastAPI) -> APIRouter:
    """For people who write programs."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(reference.page(app.openapi()))

    return router
