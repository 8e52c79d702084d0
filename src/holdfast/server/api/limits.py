"""Limits: which there are, how much of each is in use, and by whom."""

from typing import Annotated

from fastapi import Path, Query

from holdfast.server.api.limit_shapes import LimitList, LimitShape, limit_shape
from holdfast.server.api.parameters import NAME
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("limits", "/limits")

_KEY_BYTES = 512

Name = Annotated[str, Path(max_length=NAME, examples=["screenshots"], description="The name of a limit.")]


@routes.get("", Permission.LOOK, whole=True, summary="List limits")
async def list_limits(sight: Seen) -> LimitList:
    """Read the limits in force, and how much of each is in use."""
    rows = await sight.client.limits()
    usages = {usage.name: usage for usage in await sight.store.limit_usages()}
    return LimitList(limits=[limit_shape(row, usages[row.name]) for row in rows if row.name in usages])


@routes.get("/{name}", Permission.LOOK, whole=True, summary="Read a limit")
async def read_limit(
    name: Name,
    sight: Seen,
    key: Annotated[
        str | None,
        Query(max_length=_KEY_BYTES, examples=["tenant-7"], description="Only what is in use under this key."),
    ] = None,
) -> LimitShape:
    """Read how many jobs run under a limit, how many wait for it, and who holds it: of one key, or in all."""
    usage = await sight.client.limit(name).usage(key)
    for row in await sight.client.limits():
        if row.name == usage.name:
            return limit_shape(row, usage)
    raise not_found("limit", name)
