"""Schedules: what fires when, what came of it, changing them at run time, and maintenance windows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, Unpack

import msgspec

from holdfast import names, public_id
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.making import new_job
from holdfast.client.repeat import until_answered
from holdfast.client.schedule_rows import following, maintenance_window, schedule_fire, schedule_info
from holdfast.config import Settings
from holdfast.cron import read_times
from holdfast.delivery.delivery import SCHEDULES_HINT, Delivery, Ready
from holdfast.duration import milliseconds
from holdfast.errors import Conflict, InvalidValue, ScheduleNotFound
from holdfast.hours import Dates, Days, Maintenance, Window, read_maintenance
from holdfast.resources.schedule import MaintenanceWindow, ScheduleFire, ScheduleInfo
from holdfast.schedules import (
    MAINTENANCE,
    ChangeOptions,
    Outcome,
    PlanOptions,
    Schedule,
    check_policies,
    plan_of,
    read_plan,
)
from holdfast.stores.cluster import Fire, ScheduleRow, ScheduleStore, SettingStore
from holdfast.stores.store import JobStore
from holdfast.tasks.call import Call

List = list  # one of the verbs has that name

_UNDRAWN = 0
_MOST_FIRES = 1_000
_MOST_NEXT = 100


class Schedules(Protocol):
    """What can be asked of schedules, and done to them."""

    async def list(self) -> List[ScheduleInfo]:
        """Read every schedule, by name."""

    async def get(self, name: str) -> ScheduleInfo:
        """Read one schedule; ScheduleNotFound when there is none of that name."""

    async def next(self, name: str, count: int = 10) -> List[datetime]:
        """Work out when a schedule fires next, as it is now."""

    async def fires(self, name: str, limit: int = 20) -> List[ScheduleFire]:
        """Read what came of the last times of a schedule, newest first; they are kept for 30 days."""

    async def create(
        self, /, name: str, call: Call[Any], *, actor: str | None = None, **options: Unpack[PlanOptions]
    ) -> ScheduleInfo:
        """Make a schedule that no app defines: `app.schedules.create("nightly", report.call(), cron="0 3 * * *")`.

        It takes the options of `@app.schedule`; what the call leaves out is as in the task.
        """

    async def edit(
        self,
        /,
        name: str,
        *,
        call: Call[Any] | None = None,
        actor: str | None = None,
        **changes: Unpack[ChangeOptions],
    ) -> ScheduleInfo:
        """Change a schedule for all apps, until it is reset; times are given as a whole, as in `@app.schedule`."""

    async def enable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire again from now on."""

    async def disable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire no more until it is enabled."""

    async def reset(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule be again as apps define it."""

    async def run(self, name: str) -> str:
        """Make a job of a schedule now, beside its times; the answer is the public id of the job."""

    async def delete(self, name: str) -> None:
        """Delete a schedule that no app defines."""

    async def maintenance(self) -> List[MaintenanceWindow]:
        """Read the maintenance windows, by name."""

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
        """Let no schedule fire during a maintenance window; its times are recorded and left out."""

    async def end_maintenance(self, name: str) -> None:
        """Delete a maintenance window; ScheduleNotFound when there is none of that name."""


class ScheduledStore(ScheduleStore, SettingStore, JobStore, Protocol):
    """What schedules need of a store."""


class LocalSchedules:
    """The schedules of one store."""

    def __init__(self, store: ScheduledStore, settings: Settings, delivery: Delivery) -> None:
        self._store = store
        self._settings = settings
        self._delivery = delivery

    async def list(self) -> List[ScheduleInfo]:
        """Read every schedule, by name."""
        _, rows = await self._rows()
        return [schedule_info(row) for row in rows]

    async def get(self, name: str) -> ScheduleInfo:
        """Read one schedule; ScheduleNotFound when there is none of that name."""
        return schedule_info(await self._find(name))

    async def next(self, name: str, count: int = 10) -> List[datetime]:
        """Work out when a schedule fires next, as it is now."""
        names.count(count, "count", _MOST_NEXT)
        return following(await self.get(name), count)

    async def fires(self, name: str, limit: int = 20) -> List[ScheduleFire]:
        """Read what came of the last times of a schedule, newest first; they are kept for 30 days."""
        stored = names.name(name, "name")
        names.count(limit, "limit", _MOST_FIRES)
        rows = await until_answered(
            lambda _: self._store.list_fires(stored, limit), self._settings.deadline_s, "fires", changes=False
        )
        return [schedule_fire(row) for row in rows]

    async def create(
        self, /, name: str, call: Call[Any], *, actor: str | None = None, **options: Unpack[PlanOptions]
    ) -> ScheduleInfo:
        """Make a schedule that no app defines."""
        schedule = Schedule(name=name, kind=call.kind, **options)
        plan = plan_of(schedule, _template(new_job(call, _UNDRAWN, self._settings)))
        written, who = msgspec.json.encode(plan).decode(), checked_actor(actor)

        async def ask(again: bool) -> bool:  # noqa: FBT001 - the one question that until_answered answers
            is_new = await self._store.store_schedule(schedule.name, written, actor=who)
            return is_new or (again and (await self._find(schedule.name)).definition == written)

        if not await until_answered(ask, self._settings.deadline_s, f"create schedule {schedule.name}"):
            message = f"create schedule: there is a schedule {schedule.name!r} already; edit it, or take another name"
            raise Conflict(message)
        self._delivery.hint([SCHEDULES_HINT])
        return schedule_info(await self._find(schedule.name))

    async def edit(
        self,
        /,
        name: str,
        *,
        call: Call[Any] | None = None,
        actor: str | None = None,
        **changes: Unpack[ChangeOptions],
    ) -> ScheduleInfo:
        """Change a schedule for all apps, until it is reset; times are given as a whole, as in `@app.schedule`."""
        row = await self._find(name)
        plan = read_plan(row.definition, row.override)
        grace = changes.pop("grace", None)
        given = {
            "overlap": changes.pop("overlap", None),
            "missed": changes.pop("missed", None),
            "most_missed": changes.pop("most_missed", None),
            "grace_ms": None if grace is None else milliseconds(grace, "grace"),
        }
        times: dict[str, Any] = {**changes}
        override: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        check_policies(**{key: override.get(key, getattr(plan, key)) for key in given})
        if call is not None:
            if call.kind != plan.kind:
                message = f"call: schedule {name!r} makes jobs of kind {plan.kind!r}, got a call of {call.kind!r}"
                raise InvalidValue(message)
            override["job"] = _template(new_job(call, _UNDRAWN, self._settings))
        if times:
            override["times"] = read_times(**times)
        return await self._change(name, override, moves=bool(times), actor=actor)

    async def enable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire again from now on."""
        return await self._change(name, {"enabled": True}, moves=True, actor=actor)

    async def disable(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule fire no more until it is enabled."""
        return await self._change(name, {"enabled": False}, moves=True, actor=actor)

    async def reset(self, name: str, *, actor: str | None = None) -> ScheduleInfo:
        """Let a schedule be again as apps define it."""
        changed = msgspec.json.decode((await self._find(name)).override, type=dict[str, Any])
        moves = bool({"times", "enabled"}.intersection(changed))
        return await self._change(name, dict.fromkeys(changed), moves=moves, actor=actor)

    async def delete(self, name: str) -> None:
        """Delete a schedule that no app defines."""
        stored = names.name(name, "name")
        await self._find(stored)
        gone = await until_answered(
            lambda again: self._dropped(stored, again=again), self._settings.deadline_s, f"delete schedule {stored}"
        )
        if not gone:
            message = f"delete schedule {stored}: apps define it, so that it would come back; disable it instead"
            raise Conflict(message)

    async def run(self, name: str) -> str:
        """Make a job of a schedule now, beside its times; the answer is the public id of the job."""
        while True:
            now, rows = await self._rows()
            row = _named(rows, name)
            plan = read_plan(row.definition, row.override)
            (job_id,) = await self._store.take_ids(1)
            fire = Fire(now, Outcome.BY_HAND, msgspec.structs.replace(plan.job, id=job_id))
            is_fired = await until_answered(
                lambda again, row=row, fire=fire: self._fired(row, fire, again=again),  # type: ignore[misc] # bound in the loop
                self._settings.deadline_s,
                f"run schedule {row.name}",
            )
            if is_fired:  # else another caller has changed it, or runs it in the same millisecond
                self._delivery.announce(
                    [Ready(job_id, plan.job.queue, plan.job.priority, round(now.timestamp() * 1e3))]
                )
                return public_id.encode(job_id)

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
        """Let no schedule fire during a maintenance window; its times are recorded and left out."""
        stored = names.name(name, "name")
        path, hours = MAINTENANCE + stored, read_maintenance(window, days, tz, dates)
        value, who, why = msgspec.json.encode(hours).decode(), checked_actor(actor), checked_reason(reason)
        await until_answered(
            lambda _: self._store.set_override(path, value, actor=who, reason=why),
            self._settings.deadline_s,
            f"start maintenance {name}",
        )
        return maintenance_window(stored, hours)

    async def end_maintenance(self, name: str) -> None:
        """Delete a maintenance window; ScheduleNotFound when there is none of that name."""
        path = MAINTENANCE + names.name(name, "name")

        async def ended(again: bool) -> bool:  # noqa: FBT001 - as `until_answered` calls it
            return await self._store.reset_override(path) or again

        if not await until_answered(ended, self._settings.deadline_s, f"end maintenance {name}"):
            message = f"there is no maintenance window {name!r}"
            raise ScheduleNotFound(message)

    async def maintenance(self) -> List[MaintenanceWindow]:
        """Read the maintenance windows, by name."""
        found = await until_answered(
            lambda _: self._store.list_overrides(MAINTENANCE),
            self._settings.deadline_s,
            "maintenance",
            changes=False,
        )
        windows = {row.path.removeprefix(MAINTENANCE): row.value for row in found}
        return [
            maintenance_window(name, msgspec.json.decode(value, type=Maintenance))
            for name, value in sorted(windows.items())
        ]

    # ---- parts -----------------------------------------------------------------------------------------------------

    async def _rows(self) -> tuple[datetime, List[ScheduleRow]]:
        return await until_answered(
            lambda _: self._store.read_schedules(), self._settings.deadline_s, "schedules", changes=False
        )

    async def _find(self, name: str) -> ScheduleRow:
        _, rows = await self._rows()
        return _named(rows, name)

    async def _change(self, name: str, override: Mapping[str, Any], *, moves: bool, actor: str | None) -> ScheduleInfo:
        stored, who = (await self._find(name)).name, checked_actor(actor)
        written = msgspec.json.encode(override).decode()
        await until_answered(
            lambda _: self._store.change_schedule(stored, written, moves=moves, actor=who),
            self._settings.deadline_s,
            f"change schedule {stored}",
        )
        self._delivery.hint([SCHEDULES_HINT])
        return schedule_info(await self._find(stored))

    async def _fired(self, row: ScheduleRow, fire: Fire, *, again: bool) -> bool:
        rows = await self._store.fire_schedule(row.name, row.version, [fire], overlap="queue", next_fire=None)
        if rows or not again or fire.job is None:
            return bool(rows)
        return bool(await self._store.get_jobs([fire.job.id]))

    async def _dropped(self, name: str, *, again: bool) -> bool:
        return await self._store.drop_schedule(name) or again


def _named(rows: List[ScheduleRow], name: str) -> ScheduleRow:
    stored = names.name(name, "name")
    for row in rows:
        if row.name == stored:
            return row
    known = ", ".join(row.name for row in rows[:10]) or "none"
    message = f"there is no schedule {stored!r}; known are {known}"
    raise ScheduleNotFound(message)


def _template(job: Any) -> Any:
    """Leave out of a job what each fire has of its own."""
    return msgspec.structs.replace(job, run_at=None, delay_ms=None)
