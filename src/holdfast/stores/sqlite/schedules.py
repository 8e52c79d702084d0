"""What is enqueued when, on SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.stores.cluster import Fire, FireRow, ScheduleRow
from holdfast.stores.sqlite import inserting, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.jobs import cancel


class SqliteSchedules:
    """The verbs of `ScheduleStore`."""

    connection: Connection

    async def define_schedules(self, plans: Mapping[str, str], kinds: Sequence[str]) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            for name, plan in plans.items():
                statements.change(connection, "define_schedule", name=name, definition=plan, now=now)
            known, named = statements.array(kinds), statements.array(plans)
            statements.change(connection, "withdraw_schedules", kinds=known, names=named, now=now)

        await self.connection.write(operation)

    async def store_schedule(self, name: str, plan: str, *, actor: str | None) -> bool:
        asked = {"name": name, "definition": plan, "actor": actor}
        return await self._changed("store_schedule", asked)

    async def change_schedule(self, name: str, override: str, *, moves: bool, actor: str | None) -> bool:
        def operation(connection: sqlite3.Connection, now: int) -> bool:
            found = [row for row in statements.fetch(connection, "read_schedules") if row[0] == name]
            if not found:
                return False
            changed = msgspec.json.decode(found[0][3]) | msgspec.json.decode(override)
            kept = msgspec.json.encode({key: value for key, value in changed.items() if value is not None}).decode()
            asked = {"name": name, "override": kept, "moves": moves, "actor": actor}
            return statements.change(connection, "change_schedule", now=now, **asked) > 0

        return await self.connection.write(operation)

    async def drop_schedule(self, name: str) -> bool:
        return await self._changed("drop_schedule", {"name": name})

    async def read_schedules(self) -> tuple[datetime, list[ScheduleRow]]:
        def operation(connection: sqlite3.Connection, now: int) -> tuple[datetime, list[ScheduleRow]]:
            return rows.moment(now), [_schedule(row) for row in statements.fetch(connection, "read_schedules")]

        return await self.connection.read(operation)

    async def fire_schedule(
        self, name: str, version: int, fires: Sequence[Fire], *, overlap: str, next_fire: datetime | None
    ) -> list[FireRow]:
        def operation(connection: sqlite3.Connection, now: int) -> list[FireRow]:
            if not statements.fetch(connection, "lock_schedule", name=name, version=version):
                return []
            recorded = [_fire(connection, now, name, fire, overlap) for fire in fires]
            last = max((rows.milliseconds(fire.nominal) for fire in fires if fire.outcome != "by_hand"), default=None)
            if last is not None or next_fire is not None:
                following = None if next_fire is None else rows.milliseconds(next_fire)
                statements.change(connection, "advance_schedule", name=name, last=last, next=following)
            return [row for row in recorded if row is not None]

        return await self.connection.write(operation)

    async def list_fires(self, name: str, limit: int) -> list[FireRow]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_fires", name=name, limit=limit)
        )
        return [_fired(row) for row in found]

    async def prune_fires(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, "prune_fires", now=now, limit=limit)
        )

    async def _changed(self, query: str, asked: Mapping[str, object]) -> bool:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, query, now=now, **asked) > 0
        )


def _fire(connection: sqlite3.Connection, now: int, name: str, fire: Fire, overlap: str) -> FireRow | None:
    job, outcome, note = fire.job, fire.outcome, fire.note
    live: list[int] = []
    if job is not None and outcome == "enqueued":
        live = [row[0] for row in statements.fetch(connection, "jobs_of_schedule", name=name)]
    if live and overlap == "skip":
        job, outcome, note = None, "overlap", "an earlier job is not finished"
    nominal = rows.milliseconds(fire.nominal)
    asked = {"name": name, "nominal": nominal, "outcome": outcome, "note": note}
    found = statements.fetch(connection, "record_fire", now=now, job_id=None if job is None else job.id, **asked)
    if not found:
        return None
    if job is not None:
        if live and overlap == "cancel":
            cancel(connection, now, live, {"cancelled_by": f"schedule {name}", "cancel_reason": "the next one is due"})
        # No rate limit refuses what the store itself enqueues, and nothing pushes its time.
        inserting.insert(connection, now, [job], again=False, admission="free")
        statements.change(connection, "name_schedule", id=job.id, name=name, nominal=nominal)
    if fire.is_missed:
        statements.change(connection, "raise_missed", name=name, at=fire.nominal.isoformat(), note=note, now=now)
    return _fired(found[0])


def _fired(row: tuple[Any, ...]) -> FireRow:
    schedule, nominal, outcome, job_id, note, at = row
    return FireRow(schedule, rows.moment(nominal), outcome, job_id, note, rows.moment(at))


def _schedule(row: tuple[Any, ...]) -> ScheduleRow:
    name, origin, definition, override, withdrawn, version, defined, changed, changed_by, last, following = row
    return ScheduleRow(
        name,
        origin,
        definition,
        override,
        rows.optional_moment(withdrawn),
        version,
        rows.moment(defined),
        rows.moment(changed),
        changed_by,
        rows.optional_moment(last),
        rows.optional_moment(following),
    )
