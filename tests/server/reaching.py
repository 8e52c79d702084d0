"""All routes of a server, and how each of them is asked."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from holdfast import Holdfast
from holdfast.server.openapi import STREAMS, make_document
from holdfast.server.roles import Role, read_role
from holdfast.server.routing import ROLE, SCOPE
from holdfast.server.settings import ServerSettings
from holdfast.server.shield import Shield

OPEN = {"/healthz", "/readyz", "/login", "/logout"}
"""What anybody may ask for: it tells nothing, or is the way in."""

EXAMPLES = {
    "id": "htcx-2s16-z48b-09",
    "group": "3f9a0c71be42",
    "number": "17",
    "operation": "17",
    "path": "limits.x.burst",
}


class Reached(NamedTuple):
    """One route: what it is asked with, and who may."""

    method: str
    path: str
    role: Role | None
    is_whole: bool
    is_stream: bool
    name: str

    @property
    def is_api(self) -> bool:
        return self.path.startswith("/api/v1/") or self.path.startswith("/queue/jobs/")

    def address(self, **given: str) -> str:
        """Where it is asked, with examples for what the path leaves open."""
        path = self.path.replace(":path}", "}")
        for part in [word.partition("}")[0] for word in path.split("{")[1:]]:
            value = given.get(part, EXAMPLES.get(part, "nothing-there"))
            path = path.replace(f"{{{part}}}", quote(value, safe=""))
        return path


def application(asgi: Any) -> FastAPI:
    """The application behind the shield."""
    assert isinstance(asgi, Shield)
    assert isinstance(asgi.app, FastAPI)
    return asgi.app


@functools.cache
def document(root: str = "") -> dict[str, Any]:
    """Give the OpenAPI document, which is the same for all apps and takes half a second to make."""
    return make_document(application(Holdfast("sqlite://").asgi(ServerSettings())), root)


def reached(asgi: Any) -> Iterator[Reached]:
    """Go through every route there is, except files."""
    for route in iter_route_contexts(application(asgi).routes):
        if not isinstance(route.original_route, APIRoute):
            assert str(route.path).startswith("/static/"), f"{route!r} names no role"
            continue
        said = route.openapi_extra or {}
        role = read_role(said[ROLE]) if ROLE in said else None
        path, name, methods = str(route.path), str(route.name), route.methods or set()
        assert role is not None or path in OPEN, f"{path} names no role"
        for method in sorted(methods - {"HEAD"} or methods):
            yield Reached(method, path, role, said.get(SCOPE) == "all", STREAMS in route.tags, name)
