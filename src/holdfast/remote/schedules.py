"""Schedules, asked of a server: it works out their times, and what is printed of them is here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.errors import ScheduleNotFound
from holdfast.remote import shapes
from holdfast.remote.link import Link, refuse_actor
from holdfast.stores.cluster import FireRow
from holdfast.zones import read_zone


@dataclass(frozen=True)
class RemoteSchedule:
    """A schedule as a server shows it; `plan` has what commands print of one."""

    name: str
    plan: Any
    origin: str
    changed: tuple[str, ...]
    changed_by: str | None
    is_withdrawn: bool
    last_fire: datetime | None
    next_fires: tuple[datetime, ...]

    def following(self, _after: datetime, count: int) -> Sequence[datetime]:
        """When it fires next, as far as the server was asked."""
        return self.next_fires[:count]


@dataclass(frozen=True)
class RemoteWindow:
    """Hours in which no schedule fires, in words."""

    hours: str

    def describe(self) -> str:
        """Say which hours."""
        return self.hours


class RemoteSchedules:
    """The verbs of schedules."""

    link: Link

    async def stored_schedules(self) -> list[RemoteSchedule]:
        """Read every schedule."""
        return [_schedule(told) for told in (await self.link.get("schedules"))["schedules"]]

    async def next_fires(self, name: str, count: int) -> list[datetime]:
        """Work out when a schedule fires next."""
        told = await self.link.get("schedules", name, "next", count=count)
        return [shapes.instant(at) for at in told["times"]]

    async def fires(self, name: str, limit: int = 20) -> list[FireRow]:
        """Read what came of its last times."""
        return [shapes.fire(row) for row in (await self.link.get("schedules", name, "fires", limit=limit))["fires"]]

    async def run_schedule(self, name: str) -> int:
        """Make a job of it now."""
        return public_id.decode((await self.link.post("schedules", name, "run"))["id"])

    async def enable_schedule(self, name: str, *, actor: str | None = None) -> RemoteSchedule:
        """Let it fire again."""
        return await self._change(name, "enable", actor)

    async def disable_schedule(self, name: str, *, actor: str | None = None) -> RemoteSchedule:
        """Let it fire no more."""
        return await self._change(name, "disable", actor)

    async def reset_schedule(self, name: str, *, actor: str | None = None) -> RemoteSchedule:
        """Let it be as programs define it."""
        return await self._change(name, "reset", actor)

    async def delete_schedule(self, name: str) -> None:
        """Forget it."""
        await self.link.delete("schedules", name)

    async def close_schedules(self, name: str, *, actor: str | None = None, **hours: Any) -> RemoteWindow:
        """Let no schedule fire during a maintenance window."""
        refuse_actor(actor)
        return RemoteWindow((await self.link.put("maintenance", name, body=hours))["hours"])

    async def open_schedules(self, name: str) -> bool:
        """Take a maintenance window back."""
        try:
            await self.link.delete("maintenance", name)
        except ScheduleNotFound:
            return False
        return True

    async def _change(self, name: str, verb: str, actor: str | None) -> RemoteSchedule:
        refuse_actor(actor)
        return _schedule(await self.link.post("schedules", name, verb))


def _schedule(told: shapes.Told) -> RemoteSchedule:
    hours = SimpleNamespace(tz=told["tz"], zone=read_zone(told["tz"]))
    times = SimpleNamespace(describe=lambda: told["times"], cron=told["cron"], every_ms=told["every_ms"], hours=hours)
    job = SimpleNamespace(queue=told["queue"], payload=msgspec.json.encode(told["args"]).decode())
    names = ("kind", "overlap", "missed", "enabled")
    plan = SimpleNamespace(**{name: told[name] for name in names}, job=job, times=times)
    following = shapes.moment(told["next_fire"])
    return RemoteSchedule(
        name=told["name"],
        plan=plan,
        origin=told["origin"],
        changed=tuple(told["changed"]),
        changed_by=told["changed_by"],
        is_withdrawn=told["withdrawn"],
        last_fire=shapes.moment(told["last_fire"]),
        next_fires=() if following is None else (following,),
    )
