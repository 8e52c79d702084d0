"""Kinds of jobs: what can be enqueued, in which queue it runs, and which arguments it takes."""

from typing import Annotated

from fastapi import Path

from holdfast.errors import UnknownKind
from holdfast.resources.kind import KindInfo, KindList
from holdfast.server.api.parameters import NAME
from holdfast.server.problems import Problem
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("kinds", "/kinds")

Kind = Annotated[str, Path(max_length=NAME, examples=["send_email"], description="The name of a kind, or an alias.")]


@routes.get("", Permission.LOOK, summary="List kinds of jobs")
async def list_kinds(client: Seen) -> KindList:
    """Read all kinds that the server's app defines or workers have published, with the schema of their arguments."""
    return KindList(kinds=await client.kinds.list())


@routes.get("/{kind}", Permission.LOOK, summary="Read a kind of job")
async def read_kind(kind: Kind, client: Seen) -> KindInfo:
    """Read one kind: its queue, its policies, and the JSON Schema of its arguments."""
    try:
        return await client.kinds.get(kind)
    except UnknownKind as error:
        raise Problem(404, str(error), "not-found") from error
