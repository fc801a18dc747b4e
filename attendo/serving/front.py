"""The web page: its files, which come with the package, and what a browser may do with them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# Nothing from elsewhere, nothing inline, and no string ever becomes markup or a script.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again, and not sent again if it is the same
}


@dataclass(frozen=True)
class File:
    """A file of the page, its media type, and a tag that changes with it."""

    content: bytes
    kind: str
    tag: str


def read_files(folder: Path = FOLDER) -> dict[str, File]:
    """By name. They are read once: what a request asks for is looked up here, and never in the file system."""
    found = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        tag = hashlib.sha256(content).hexdigest()[:20]
        found[path.name] = File(content, f"{KINDS[path.suffix]}; charset=utf-8", f'"{tag}"')
    return found


def router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    files = read_files()

    def sent(request: Request, file: File) -> Response:
        headers = {**HEADERS, "ETag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers={**headers, "Content-Type": file.kind})

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return sent(request, files["index.html"])

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def part(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return sent(request, files[name])

    return router
