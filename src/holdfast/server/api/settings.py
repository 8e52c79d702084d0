"""Settings: what holds and who said so, and what people change of it at run time."""

from typing import Annotated

from fastapi import Path, Request

from holdfast.resources.queue import SettingRequest
from holdfast.resources.setting import Setting, SettingList, SettingReset
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("settings", "/settings")

_LONGEST = 160

SettingPath = Annotated[
    str,
    Path(
        max_length=_LONGEST,
        examples=["limits.screenshots.concurrency"],
        description="What is set: a sort of thing (limits, budgets, queues, services), a name, a field.",
    ),
]


@routes.get("", Permission.LOOK, whole=True, summary="List settings")
async def list_settings(client: Seen) -> SettingList:
    """Read every setting with where it comes from, the strongest last: default, code, file, environment, override.

    Who may use the server, and the path of the file, are shown to those who may change settings.
    """
    return await client.settings.list()


@routes.get("/overrides", Permission.LOOK, whole=True, summary="List overrides")
async def list_overrides(client: Seen) -> SettingList:
    """Read the settings that were changed at run time: by whom, when and why."""
    return SettingList(settings=await client.settings.overrides())


@routes.put(
    "/{path}",
    Permission.CHANGE_SETTINGS,  # guard: settings-role, without: Permission.PAUSE_QUEUES,
    whole=True,  # guard: settings-scope, without: whole=False,
    summary="Set a setting",
)
async def set_setting(path: SettingPath, asked: SettingRequest, client: Seen, request: Request) -> Setting:
    """Change a setting of a limit, budget, queue or service for all apps.

    It holds within five seconds and until it is reset, and is checked as if it stood in the definition.
    """
    noted(request, value=asked.value, reason=asked.reason)
    return await client.settings.set(path, asked.value, reason=asked.reason)


@routes.delete("/{path}", Permission.CHANGE_SETTINGS, whole=True, summary="Reset a setting")
async def reset_setting(path: SettingPath, client: Seen) -> SettingReset:
    """Let a setting be again what apps and their configuration say."""
    return SettingReset(reset=await client.settings.reset(path))
