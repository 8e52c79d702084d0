"""Kinds of jobs: what can be enqueued, in which queue it runs, and which arguments it takes."""

from typing import Annotated

from fastapi import Path, Request

from holdfast.errors import UnknownKind
from holdfast.server.api.enqueueing import kinds
from holdfast.server.api.kind_shapes import KindList, KindShape, kind_shape
from holdfast.server.api.parameters import NAME
from holdfast.server.problems import Problem
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("kinds", "/kinds")

Kind = Annotated[str, Path(max_length=NAME, examples=["send_email"], description="The name of a kind, or an alias.")]


@routes.get("", Permission.LOOK, summary="List kinds of jobs")
async def list_kinds(request: Request, sight: Seen) -> KindList:
    """Read all kinds that the server's app defines or workers have published, with the schema of their arguments."""
    return KindList(kinds=[kind_shape(row) for row in await kinds(request).listed(sight)])


@routes.get("/{kind}", Permission.LOOK, summary="Read a kind of job")
async def read_kind(kind: Kind, request: Request, sight: Seen) -> KindShape:
    """Read one kind: its queue, its policies, and the JSON Schema of its arguments."""
    try:
        return kind_shape(await kinds(request).read(sight, kind))
    except UnknownKind as error:
        raise Problem(404, str(error), "not-found") from error
