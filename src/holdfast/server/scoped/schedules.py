"""Schedules, as far as one caller may see them: those whose jobs go to their queues."""

from datetime import datetime
from typing import Any, Unpack

from holdfast import names
from holdfast.client.schedules import List, Schedules
from holdfast.errors import ScheduleNotFound
from holdfast.hours import Dates, Days, Window
from holdfast.resources.schedule import MaintenanceWindow, ScheduleFire, ScheduleInfo
from holdfast.schedules import ChangeOptions, PlanOptions
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.tasks.call import Call


class ScopedSchedules(Scope):
    """The schedules of one caller."""

    def __init__(self, schedules: Schedules, principal: Principal) -> None:
        super().__init__(principal)
        self._schedules = schedules

    async def list(self) -> List[ScheduleInfo]:
        """Read every schedule whose jobs go to a queue that the caller may see."""
        found = await self._schedules.list()
        return [one for one in found if self.sees(one.queue)]  # guard: scope-schedule, without: return found

    async def get(self, name: str) -> ScheduleInfo:
        """Read one schedule; one of other queues does not exist for the caller."""
        stored = names.name(name, "name")
        known = {schedule.name: schedule for schedule in await self.list()}
        if stored not in known:
            message = f"there is no schedule {stored!r}; known are {', '.join(List(known)[:10]) or 'none'}"
            raise ScheduleNotFound(message)
        return known[stored]

    async def next(self, name: str, count: int = 10) -> List[datetime]:
        """Work out when a schedule fires next, as it is now."""
        return await self._schedules.next(await self._own(name), count)

    async def fires(self, name: str, limit: int = 20) -> List[ScheduleFire]:
        """Read what came of the last times of a schedule, newest first."""
        return await self._schedules.fires(await self._own(name), limit)

    async def create(
        self, /, name: str, call: Call[Any], *, actor: str | None = None, **options: Unpack[PlanOptions]
    ) -> ScheduleInfo:
        """Make a schedule that no app defines."""
        self.require(call.queue)
        return await self._schedules.create(name, call, actor=self.acting(actor), **options)

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
        if call is not None:
            self.require(call.queue)
        return await self._schedules.edit(await self._own(name), call=call, actor=self.acting(actor), **changes)

    async def enable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire again from now on."""
        return await self._schedules.enable(await self._own(name), actor=self.acting(actor))

    async def disable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire no more until it is enabled."""
        return await self._schedules.disable(await self._own(name), actor=self.acting(actor))

    async def reset(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule be again as apps define it."""
        return await self._schedules.reset(await self._own(name), actor=self.acting(actor))

    async def run(self, name: str) -> str:
        """Make a job of a schedule now, beside its times."""
        return await self._schedules.run(await self._own(name))

    async def delete(self, name: str) -> None:
        """Delete a schedule that no app defines."""
        await self._schedules.delete(await self._own(name))

    async def maintenance(self) -> List[MaintenanceWindow]:
        """Read the maintenance windows, which hold for all queues."""
        return await self._schedules.maintenance()

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
        self.require_all()
        return await self._schedules.start_maintenance(
            name, window=window, days=days, tz=tz, dates=dates, actor=self.acting(actor), reason=reason
        )

    async def end_maintenance(self, name: str) -> None:
        """Delete a maintenance window."""
        self.require_all()
        await self._schedules.end_maintenance(name)

    async def _own(self, name: str) -> str:
        return (await self.get(name)).name
