"""Settings: what holds and who said so, and what people change of it at run time."""

from typing import Annotated, Any

import msgspec
from fastapi import Path, Request
from pydantic import Field

from holdfast.configuration.showing import overridden
from holdfast.server.api.parameters import Reason
from holdfast.server.api.shape import Asked, Moment, Shape
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted, served
from holdfast.stores.cluster import Override

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


class SettingShape(Shape):
    """One setting: what holds, and who said so; secrets are covered."""

    path: str = Field(examples=["queues.high.workers"])
    value: Any = Field(examples=[10])
    origin: str = Field(description="default, code, a file, or override.", examples=["code"])


class SettingList(Shape):
    """Every setting of the app that the server belongs to, with what people have changed at run time."""

    settings: list[SettingShape]


class OverrideShape(Shape):
    """What somebody has changed at run time: it holds for everybody until it is reset."""

    path: str = Field(examples=["limits.screenshots.concurrency"])
    value: Any = Field(examples=[2])
    actor: str | None = Field(examples=["ann"])
    reason: str | None = Field(examples=["the supplier is slow"])
    changed_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])


class OverrideList(Shape):
    """All that people have changed at run time."""

    overrides: list[OverrideShape]


class NewValue(Asked):
    """What a setting is to be, and why."""

    value: Any = Field(description="As in the configuration.", examples=[2])
    reason: Reason = None


class WasReset(Shape):
    """Whether anybody had changed it."""

    reset: bool = Field(examples=[True])


@routes.get("", Permission.LOOK, whole=True, summary="List settings")
async def list_settings(sight: Seen, request: Request) -> SettingList:
    """Read every setting with where it comes from, the strongest last: default, code, file, environment, override."""
    found = overridden(served(request).described(), await sight.client.overrides())
    return SettingList(settings=[SettingShape(path=row.path, value=row.value, origin=row.origin) for row in found])


@routes.get("/overrides", Permission.LOOK, whole=True, summary="List overrides")
async def list_overrides(sight: Seen) -> OverrideList:
    """Read what people have changed at run time: who, when and why."""
    return OverrideList(overrides=[override_shape(row) for row in await sight.client.overrides()])


@routes.put(
    "/{path}",
    Permission.CHANGE_SETTINGS,  # guard: settings-role, without: Permission.PAUSE_QUEUES,
    whole=True,  # guard: settings-scope, without: whole=False,
    summary="Set a setting",
)
async def set_setting(path: SettingPath, asked: NewValue, sight: Seen, who: Who, request: Request) -> OverrideShape:
    """Change a setting of a limit, budget, queue or service for everybody, within five seconds and until it is reset.

    It is checked as if it stood in the definition.
    """
    noted(request, value=asked.value, reason=asked.reason)
    await sight.client.set_policy(path, asked.value, actor=who.name, reason=asked.reason)
    for row in await sight.client.overrides():
        if row.path == path.lower():
            return override_shape(row)
    raise not_found("override", path)


@routes.delete("/{path}", Permission.CHANGE_SETTINGS, whole=True, summary="Reset a setting")
async def reset_setting(path: SettingPath, sight: Seen) -> WasReset:
    """Let a setting be again what programs and their configuration say."""
    return WasReset(reset=await sight.client.reset_policy(path))


def override_shape(row: Override) -> OverrideShape:
    """Show what somebody has changed."""
    return OverrideShape(
        path=row.path,
        value=msgspec.json.decode(row.value),
        actor=row.actor,
        reason=row.reason,
        changed_at=row.changed_at,
    )
