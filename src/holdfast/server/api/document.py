"""The OpenAPI document, for programs that make clients of it."""

import asyncio
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse

from holdfast.server import openapi
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes

routes = Routes("system", in_schema=False)


@routes.get("/openapi.json", Permission.LOOK)
async def read_document(request: Request) -> JSONResponse:
    """Describe every operation of the API."""
    return JSONResponse(await document_of(request))


async def document_of(request: Request) -> dict[str, Any]:
    """The document as it reads under the path that was asked; it is made once for each."""
    root = request.scope.get("root_path", "").rstrip("/")
    known: dict[str, dict[str, Any]] = request.app.state.documents
    if root not in known:
        # In a thread, for it takes half a second, in which others are answered.
        made = await asyncio.to_thread(openapi.make_document, request.app, root)
        known.clear()  # there is one, unless somebody makes paths up
        known[root] = made
    return known[root]
