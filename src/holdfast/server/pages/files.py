"""The files of the dashboard: named after what is in them, so that browsers may keep them for ever."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.problems import not_found

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"
_MARK = 12


@cache
def _contents() -> dict[str, bytes]:
    """Read the files once: names that somebody makes up are looked for nowhere, and nothing is kept of them."""
    folder = files("holdfast.server").joinpath("static")
    return {found.name: found.read_bytes() for found in folder.iterdir() if found.is_file()}


@cache
def _packed(name: str) -> bytes:
    return gzip.compress(_contents()[name], mtime=0)


@cache
def marked(name: str) -> str:
    """The name of a file with a mark of its content."""
    content = _contents().get(name)
    if content is None:
        message = f"there is no file {name}"
        raise LookupError(message)
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:_MARK]}.{kind}"


async def file(request: Request) -> Response:
    """Give a file, under its marked name."""
    asked = request.path_params["name"]
    stem, _, kind = asked.rpartition(".")
    name = f"{stem.rpartition('.')[0]}.{kind}"
    content = _contents().get(name)
    if content is None or kind not in _TYPES or marked(name) != asked:
        raise not_found("file", asked)
    headers = {"cache-control": _FOR_EVER, "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["content-encoding"] = _packed(name), "gzip"
    return Response(content, media_type=_TYPES[kind], headers=headers)
