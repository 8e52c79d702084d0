"""What operators ask of schedules, and what programs make of them at run time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, Unpack

import msgspec

from holdfast import names
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.making import new_job
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.cron import read_times
from holdfast.delivery.delivery import SCHEDULES_HINT, Delivery, Ready
from holdfast.duration import Duration, milliseconds
from holdfast.errors import Conflict, InvalidValue, ScheduleNotFound
from holdfast.hours import Dates, Days, Maintenance, Window, read_maintenance
from holdfast.schedules import (
    MAINTENANCE,
    Missed,
    Outcome,
    Overlap,
    Plan,
    PlanOptions,
    Schedule,
    TimesOptions,
    check_policies,
    plan_of,
    read_plan,
)
from holdfast.stores.cluster import Fire, FireRow, ScheduleRow, ScheduleStore, SettingStore
from holdfast.stores.store import JobStore
from holdfast.tasks.call import Call

_UNDRAWN = 0


class ScheduledStore(ScheduleStore, SettingStore, JobStore, Protocol):
    """What schedules need of a store."""


class ScheduleState(msgspec.Struct, frozen=True):
    """A schedule as it is now: what it makes when, what people have changed of it, how far it has come."""

    name: str
    plan: Plan
    origin: str
    changed: tuple[str, ...]
    changed_by: str | None
    is_withdrawn: bool
    last_fire: datetime | None
    next_fire: datetime | None

    @property
    def is_enabled(self) -> bool:
        """Whether it fires."""
        return self.plan.enabled and not self.is_withdrawn

    def following(self, now: datetime, count: int) -> list[datetime]:
        """The next times, as it is now."""
        found: list[datetime] = []
        moment: datetime | None = now
        while self.is_enabled and len(found) < count and (moment := self.plan.times.next_after(moment or now)):
            found.append(moment)
        return found


class ScheduleVerbs:
    """The verbs of schedules, on one store."""

    def __init__(self, store: ScheduledStore, settings: Settings, delivery: Delivery) -> None:
        self._schedule_store = store
        self._settings = settings
        self.delivery = delivery

    async def stored_schedules(self) -> list[ScheduleState]:
        """Read every schedule, by name."""
        _, rows = await self._read_schedules()
        return [_state(row) for row in rows]

    async def fires(self, name: str, limit: int = 20) -> list[FireRow]:
        """Read what came of the last times of a schedule, newest first."""
        stored = names.name(name, "name")
        names.count(limit, "limit", 1_000)
        return await until_answered(
            lambda _: self._schedule_store.list_fires(stored, limit), self._settings.deadline_s, "fires", changes=False
        )

    async def create_schedule(
        self, /, name: str, call: Call[Any], *, actor: str | None = None, **options: Unpack[PlanOptions]
    ) -> ScheduleState:
        """Make a schedule that no program defines: `app.create_schedule("nightly", report.call(), cron="0 3 * * *")`.

        It takes the options of `@app.schedule`; what the call leaves out is as in the task.
        """
        schedule = Schedule(name=name, kind=call.kind, **options)
        plan = plan_of(schedule, _template(new_job(call, _UNDRAWN, self._settings)))
        written, who = msgspec.json.encode(plan).decode(), checked_actor(actor)

        async def ask(again: bool) -> bool:  # noqa: FBT001 - the one question that until_answered answers
            is_new = await self._schedule_store.store_schedule(schedule.name, written, actor=who)
            return is_new or (again and (await self._find(schedule.name)).definition == written)

        if not await until_answered(ask, self._settings.deadline_s, f"create schedule {schedule.name}"):
            message = f"create schedule: there is a schedule {schedule.name!r} already; edit it, or take another name"
            raise Conflict(message)
        self.delivery.hint([SCHEDULES_HINT])
        return _state(await self._find(schedule.name))

    async def edit_schedule(
        self,
        /,
        name: str,
        *,
        call: Call[Any] | None = None,
        overlap: Overlap | None = None,
        missed: Missed | None = None,
        most_missed: int | None = None,
        grace: Duration | None = None,
        actor: str | None = None,
        **times: Unpack[TimesOptions],
    ) -> ScheduleState:
        """Change a schedule for everybody, until it is reset; times are given as a whole, as in `@app.schedule`."""
        plan = _state(await self._find(name)).plan
        grace_ms = None if grace is None else milliseconds(grace, "grace")
        given = {"overlap": overlap, "missed": missed, "most_missed": most_missed, "grace_ms": grace_ms}
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

    async def enable_schedule(self, name: str, *, actor: str | None = None) -> ScheduleState:
        """Let a schedule fire again from now on."""
        return await self._change(name, {"enabled": True}, moves=True, actor=actor)

    async def disable_schedule(self, name: str, *, actor: str | None = None) -> ScheduleState:
        """Let a schedule fire no more until it is enabled."""
        return await self._change(name, {"enabled": False}, moves=True, actor=actor)

    async def reset_schedule(self, name: str, *, actor: str | None = None) -> ScheduleState:
        """Let a schedule be again as programs define it."""
        changed = msgspec.json.decode((await self._find(name)).override, type=dict[str, Any])
        moves = bool({"times", "enabled"}.intersection(changed))
        return await self._change(name, dict.fromkeys(changed), moves=moves, actor=actor)

    async def delete_schedule(self, name: str) -> None:
        """Forget a schedule that no program defines any more, or ever did."""
        stored = names.name(name, "name")
        await self._find(stored)
        gone = await until_answered(
            lambda again: self._dropped(stored, again=again), self._settings.deadline_s, f"delete schedule {stored}"
        )
        if not gone:
            message = f"delete schedule {stored}: programs define it, so that it would come back; disable it instead"
            raise Conflict(message)

    async def run_schedule(self, name: str) -> int:
        """Make a job of a schedule now, beside its times; the answer is the job's id."""
        while True:
            now, rows = await self._read_schedules()
            row = _named(rows, name)
            plan = read_plan(row.definition, row.override)
            (job_id,) = await self._schedule_store.take_ids(1)
            fire = Fire(now, Outcome.BY_HAND, msgspec.structs.replace(plan.job, id=job_id))
            fired = await until_answered(
                lambda again, row=row, fire=fire: self._fired(row, fire, again=again),  # type: ignore[misc] # bound in the loop
                self._settings.deadline_s,
                f"run schedule {row.name}",
            )
            if fired:  # or somebody has changed it meanwhile, or runs it in the same millisecond
                self.delivery.announce([Ready(job_id, plan.job.queue, plan.job.priority, round(now.timestamp() * 1e3))])
                return job_id

    async def close_schedules(
        self,
        name: str,
        *,
        window: Window | None = None,
        days: Days | None = None,
        tz: str = "UTC",
        dates: Dates | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Maintenance:
        """Let no schedule fire during a maintenance window; its times are recorded and left out."""
        path = MAINTENANCE + names.name(name, "name")
        closed = read_maintenance(window, days, tz, dates)
        value, who, why = msgspec.json.encode(closed).decode(), checked_actor(actor), checked_reason(reason)
        await until_answered(
            lambda _: self._schedule_store.set_override(path, value, actor=who, reason=why),
            self._settings.deadline_s,
            f"close schedules ({name})",
        )
        return closed

    async def open_schedules(self, name: str) -> bool:
        """Take a maintenance window back; False when there was none of that name."""
        path = MAINTENANCE + names.name(name, "name")
        return await until_answered(
            lambda again: self._reopened(path, again=again), self._settings.deadline_s, f"open schedules ({name})"
        )

    async def maintenance(self) -> Mapping[str, Maintenance]:
        """Read the maintenance windows."""
        found = await until_answered(
            lambda _: self._schedule_store.list_overrides(MAINTENANCE),
            self._settings.deadline_s,
            "maintenance",
            changes=False,
        )
        return {row.path.removeprefix(MAINTENANCE): msgspec.json.decode(row.value, type=Maintenance) for row in found}

    # ---- parts -----------------------------------------------------------------------------------------------------

    async def _read_schedules(self) -> tuple[datetime, list[ScheduleRow]]:
        return await until_answered(
            lambda _: self._schedule_store.read_schedules(), self._settings.deadline_s, "schedules", changes=False
        )

    async def _find(self, name: str) -> ScheduleRow:
        _, rows = await self._read_schedules()
        return _named(rows, name)

    async def _change(self, name: str, override: Mapping[str, Any], *, moves: bool, actor: str | None) -> ScheduleState:
        stored, who = (await self._find(name)).name, checked_actor(actor)
        written = msgspec.json.encode(override).decode()
        await until_answered(
            lambda _: self._schedule_store.change_schedule(stored, written, moves=moves, actor=who),
            self._settings.deadline_s,
            f"change schedule {stored}",
        )
        self.delivery.hint([SCHEDULES_HINT])
        return _state(await self._find(stored))

    async def _fired(self, row: ScheduleRow, fire: Fire, *, again: bool) -> bool:
        rows = await self._schedule_store.fire_schedule(row.name, row.version, [fire], overlap="queue", next_fire=None)
        if rows or not again or fire.job is None:
            return bool(rows)
        return bool(await self._schedule_store.get_jobs([fire.job.id]))

    async def _dropped(self, name: str, *, again: bool) -> bool:
        return await self._schedule_store.drop_schedule(name) or again

    async def _reopened(self, path: str, *, again: bool) -> bool:
        return await self._schedule_store.reset_override(path) or again


def _state(row: ScheduleRow) -> ScheduleState:
    changed = msgspec.json.decode(row.override, type=dict[str, Any])
    return ScheduleState(
        row.name,
        read_plan(row.definition, row.override),
        row.origin,
        tuple(sorted(changed)),
        row.changed_by,
        row.withdrawn_at is not None,
        row.last_fire,
        row.next_fire,
    )


def _named(rows: list[ScheduleRow], name: str) -> ScheduleRow:
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
