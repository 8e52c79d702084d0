"""Settings: what holds and who said so, and what people change of it at run time."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Request

from holdfast.configuration.showing import overridden, override_path
from holdfast.resources.queue import SettingRequest
from holdfast.resources.setting import Setting, SettingList, SettingReset
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted, served

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
async def list_settings(sight: Seen, who: Who, request: Request) -> SettingList:
    """Read every setting with where it comes from, the strongest last: default, code, file, environment, override.

    Who may use the server, and the path of the file, are shown to those who may change settings.
    """
    found = served(request).described()
    settings = overridden(found.settings, await sight.client.overrides())
    if who.may(Permission.CHANGE_SETTINGS.role):
        return replace(found, settings=settings)
    shown = [setting for setting in settings if not setting.path.startswith("server.")]
    return SettingList(settings=shown)  # guard: settings-server, without: return replace(found, settings=settings)


@routes.get("/overrides", Permission.LOOK, whole=True, summary="List overrides")
async def list_overrides(sight: Seen, who: Who, request: Request) -> SettingList:
    """Read the settings that were changed at run time: by whom, when and why."""
    found = await list_settings(sight, who, request)
    return replace(found, settings=[setting for setting in found.settings if setting.changed_at is not None])


@routes.put(
    "/{path}",
    Permission.CHANGE_SETTINGS,  # guard: settings-role, without: Permission.PAUSE_QUEUES,
    whole=True,  # guard: settings-scope, without: whole=False,
    summary="Set a setting",
)
async def set_setting(path: SettingPath, asked: SettingRequest, sight: Seen, who: Who, request: Request) -> Setting:
    """Change a setting of a limit, budget, queue or service for all programs.

    It holds within five seconds and until it is reset, and is checked as if it stood in the definition.
    """
    noted(request, value=asked.value, reason=asked.reason)
    await sight.client.set_policy(path, asked.value, actor=who.name, reason=asked.reason)
    for setting in (await list_overrides(sight, who, request)).settings:
        if setting.path == override_path(path.lower()):
            return setting
    raise not_found("override", path)


@routes.delete("/{path}", Permission.CHANGE_SETTINGS, whole=True, summary="Reset a setting")
async def reset_setting(path: SettingPath, sight: Seen) -> SettingReset:
    """Let a setting be again what programs and their configuration say."""
    return SettingReset(reset=await sight.client.reset_policy(path))
