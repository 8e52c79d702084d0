"""Limits: which are in force, how much of each is in use and by whom, and changing their settings."""

from typing import Annotated

from fastapi import Path, Query, Request

from holdfast.client.in_force import CHANGEABLE
from holdfast.resources.limit import LimitInfo, LimitList
from holdfast.resources.queue import SettingRequest
from holdfast.server.api.parameters import NAME
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("limits", "/limits")

_KEY_BYTES = 512

Name = Annotated[str, Path(max_length=NAME, examples=["screenshots"], description="The name of a limit.")]
Key = Annotated[
    str | None, Query(max_length=_KEY_BYTES, examples=["tenant-7"], description="Only what is in use under this key.")
]
SettingName = Annotated[
    str,
    Path(max_length=NAME, examples=["concurrency"], description=f"One of {', '.join(CHANGEABLE['limits'])}."),
]


@routes.get("", Permission.LOOK, whole=True, summary="List limits")
async def list_limits(client: Seen) -> LimitList:
    """Read the limits in force, and how much of each is in use."""
    return LimitList(limits=await client.limits.list())


@routes.get("/{name}", Permission.LOOK, whole=True, summary="Read a limit")
async def read_limit(name: Name, client: Seen, key: Key = None) -> LimitInfo:
    """Read how many jobs run under a limit, how many wait for it, and who holds it: under one key, or in all."""
    return await client.limits.get(name, key)


@routes.put("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, whole=True, summary="Set a setting of a limit")
async def set_limit(name: Name, field: SettingName, asked: SettingRequest, client: Seen, request: Request) -> LimitInfo:
    """Change a setting of a limit for all apps, within five seconds and until it is reset."""
    noted(request, limit=name, value=asked.value, reason=asked.reason)
    return await client.limits.set(name, field, asked.value, reason=asked.reason)


@routes.delete("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, whole=True, summary="Reset a setting of a limit")
async def reset_limit(name: Name, field: SettingName, client: Seen, request: Request) -> LimitInfo:
    """Let a setting of a limit be again what apps and their configuration say."""
    noted(request, limit=name)
    return await client.limits.reset(name, field)
