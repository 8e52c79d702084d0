"""Schedules and maintenance windows, over HTTP."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Unpack

import msgspec

from holdfast.client.schedules import List
from holdfast.duration import milliseconds
from holdfast.hours import Dates, Days, Window, read_hours
from holdfast.remote.link import refuse_actor
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.schedule import (
    FireList,
    MaintenanceList,
    MaintenanceRequest,
    MaintenanceWindow,
    NextFires,
    ScheduleChangeRequest,
    ScheduledJob,
    ScheduleFire,
    ScheduleInfo,
    ScheduleList,
    ScheduleRequest,
)
from holdfast.schedules import ChangeOptions, PlanOptions
from holdfast.tasks.call import Call


class RemoteSchedules(RemoteNamespace):
    """The schedules of a server."""

    path = "schedules"

    async def list(self) -> List[ScheduleInfo]:
        """Read every schedule."""
        return (await self._get(ScheduleList)).schedules

    async def get(self, name: str) -> ScheduleInfo:
        """Read one schedule."""
        return await self._get(ScheduleInfo, name)

    async def next(self, name: str, count: int = 10) -> List[datetime]:
        """Work out when a schedule fires next."""
        return (await self._get(NextFires, name, "next", count=count)).times

    async def fires(self, name: str, limit: int = 20) -> List[ScheduleFire]:
        """Read what came of the last times of a schedule."""
        return (await self._get(FireList, name, "fires", limit=limit)).fires

    async def create(
        self, /, name: str, call: Call[Any], *, actor: str | None = None, **options: Unpack[PlanOptions]
    ) -> ScheduleInfo:
        """Make a schedule that no app defines."""
        args = msgspec.json.decode(call.args_json)
        body = ScheduleRequest(name=name, kind=call.kind, args=args, **_written(options))
        return await self._change("POST", ScheduleInfo, body=body, actor=actor)

    async def edit(
        self,
        /,
        name: str,
        *,
        call: Call[Any] | None = None,
        actor: str | None = None,
        **changes: Unpack[ChangeOptions],
    ) -> ScheduleInfo:
        """Change a schedule for all apps, until it is reset."""
        args = None if call is None else msgspec.json.decode(call.args_json)
        body = ScheduleChangeRequest(args=args, **_written(changes))
        return await self._change("PATCH", ScheduleInfo, name, body=body, actor=actor)

    async def enable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire again from now on."""
        return await self._change("POST", ScheduleInfo, name, "enable", actor=actor)

    async def disable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire no more until it is enabled."""
        return await self._change("POST", ScheduleInfo, name, "disable", actor=actor)

    async def reset(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule be again as apps define it."""
        return await self._change("POST", ScheduleInfo, name, "reset", actor=actor)

    async def run(self, name: str) -> str:
        """Make a job of a schedule now, beside its times."""
        return (await self._change("POST", ScheduledJob, name, "run")).id

    async def delete(self, name: str) -> None:
        """Delete a schedule that no app defines."""
        await self._link.delete(self.path, name)

    async def maintenance(self) -> List[MaintenanceWindow]:
        """Read the maintenance windows."""
        return (await self._link.ask(MaintenanceList, "GET", "maintenance")).windows

    async def start_maintenance(
        self,
        name: str,
        *,
        window: Window | None = None,
        days: Days | None = None,
        tz: str = "UTC",
        dates: Dates | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> MaintenanceWindow:
        """Let no schedule fire during a maintenance window."""
        refuse_actor(actor)
        body = MaintenanceRequest(
            window=window,
            days=_days(days),
            tz=tz,
            dates=None if dates is None else _dates(dates),
            reason=reason,
        )
        return await self._link.ask(MaintenanceWindow, "PUT", "maintenance", name, body=body)

    async def end_maintenance(self, name: str) -> None:
        """Delete a maintenance window."""
        await self._link.delete("maintenance", name)


def _written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Write options as a request has them: lengths and weekdays as text."""
    written = {name: value for name, value in options.items() if value is not None}
    for name in {"every", "jitter", "grace"} & written.keys():
        written[name] = f"{milliseconds(written[name], name)}ms"
    if "days" in written:
        written["days"] = _days(written["days"])
    if "exclude" in written:
        written["exclude"] = _dates(written["exclude"])
    return written


def _days(days: Days | None) -> str | None:
    return days if days is None or isinstance(days, str) else ",".join(days)


def _dates(dates: Dates) -> List[date]:
    """Write dates one by one, ranges too."""
    ranges = read_hours(exclude=dates).exclude
    return [date.fromordinal(day) for first, last in ranges for day in range(first.toordinal(), last.toordinal() + 1)]
