"""Alarms and escalations, on PostgreSQL."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import asyncpg
import msgspec

from holdfast.stores.alarms import (
    MOST_JOBS,
    QUIET_MS,
    Alarm,
    EscalationRow,
    NewNotice,
    NoticeRow,
    Pace,
    PolicyState,
    Waiting,
)
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role


class PostgresAlarms(Role):
    """The verbs of `AlarmStore`."""

    async def define_escalations(self, policies: Sequence[str]) -> None:
        await self.fetch("define_escalations", list(policies))

    async def fold_alarms(self, policies: Mapping[str, Sequence[str]], limit: int) -> int:
        names, sources = list(policies), [",".join(some) for some in policies.values()]
        if not await self.fetch_value("has_alarms", names):  # nobody is kept waiting while there is nothing to take
            return 0

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await connection.fetch(self.queries["lock_policies"], names)
                return int(await connection.fetchval(self.queries["fold_alarms"], names, sources, limit, MOST_JOBS))

        return await self.pool.call(work)

    async def waiting_escalations(self, policies: Sequence[str], digests: Sequence[str], limit: int) -> Waiting:
        states = await self.fetch("escalation_states", list(policies))
        found = await self.fetch("waiting_escalations", list(policies), list(digests), limit, QUIET_MS)
        known = tuple(PolicyState(*tuple(row)[1:]) for row in states if row["name"] is not None)
        return Waiting(states[0]["now"], known, tuple(_escalation(row) for row in found))

    async def undigested(self, policy: str, limit: int) -> list[EscalationRow]:
        return [_escalation(row) for row in await self.fetch("undigested", policy, limit)]

    async def move_escalation(
        self, before: EscalationRow, after: EscalationRow, notices: Sequence[NewNotice], pace: Pace | None = None
    ) -> bool:
        async def work(connection: Connection) -> bool:
            if pace is not None and not await self._take_pace(connection, pace):
                return False
            moved = await connection.fetch(
                self.queries["move_escalation"],
                before.id,
                before.version,
                before.count,
                after.stage,
                after.told_at,
                after.said,
                after.due_at,
                after.snoozed_until,
                after.ack_told_at,
                after.closed_at,
                after.resolved_at,
            )
            await self._write_notices(connection, notices)
            return bool(moved)

        return await self._all_or_nothing(work)

    async def tell_together(
        self,
        rows: Sequence[EscalationRow],
        notices: Sequence[NewNotice],
        *,
        due_at: datetime | None,
        pace: Pace | None = None,
        digest: tuple[str, datetime] | None = None,
    ) -> bool:
        ids, counts = [row.id for row in rows], [row.count for row in rows]

        async def work(connection: Connection) -> bool:
            if digest is not None and not await connection.fetch(self.queries["take_digest"], *digest):
                return False
            if pace is not None and not await self._take_pace(connection, pace):
                return False
            told = await connection.fetch(self.queries["tell_together"], ids, counts, due_at, digest is not None)
            await self._write_notices(connection, notices)
            return len(told) == len(ids)

        return await self._all_or_nothing(work)

    async def ack_escalation(self, escalation: int, *, actor: str | None, note: str | None) -> EscalationRow | None:
        found = await self.fetch("ack_escalation", escalation, actor, note)
        return _escalation(found[0]) if found else None

    async def snooze_escalation(
        self, escalation: int, *, until: datetime | None, delay_ms: int | None, actor: str | None
    ) -> EscalationRow | None:
        found = await self.fetch("snooze_escalation", escalation, until, delay_ms, actor)
        return _escalation(found[0]) if found else None

    async def get_escalation(self, escalation: int) -> tuple[EscalationRow, list[NoticeRow]] | None:
        found = await self.fetch("get_escalation", escalation)
        if not found:
            return None
        return _escalation(found[0]), [NoticeRow(*row) for row in await self.fetch("notices_of", escalation)]

    async def list_escalations(
        self, *, is_open: bool | None, policy: str | None, limit: int, before: int | None
    ) -> list[EscalationRow]:
        return [_escalation(row) for row in await self.fetch("list_escalations", is_open, policy, limit, before)]

    async def prune_alarms(self, limit: int) -> int:
        return max(
            [len(await self.fetch(query, limit)) for query in ("prune_alarms", "prune_escalations", "prune_notices")]
        )

    async def _take_pace(self, connection: Connection, pace: Pace) -> bool:
        return bool(await connection.fetch(self.queries["take_pace"], pace.policy, pace.spacing_us, pace.times))

    async def _write_notices(self, connection: Connection, notices: Sequence[NewNotice]) -> None:
        if notices:
            columns = zip(*(msgspec.structs.astuple(notice) for notice in notices), strict=True)
            await connection.execute(self.queries["write_notices"], *(list(column) for column in columns))

    async def _all_or_nothing(self, work: Callable[[Connection], Awaitable[bool]]) -> bool:
        """Run work in one transaction, of which nothing stays when the answer is False: somebody else was first."""

        async def run(connection: Connection) -> bool:
            transaction = connection.transaction()
            await transaction.start()
            try:
                done = await work(connection)
            except BaseException:
                await transaction.rollback()
                raise
            await (transaction.commit() if done else transaction.rollback())
            return done

        return await self.pool.call(run)


def alarm_columns(alarm: Alarm) -> tuple[object, ...]:
    """Spell an alarm as the query that puts it into the inbox takes it."""
    who = (alarm.source, alarm.policy, alarm.queue, alarm.kind, alarm.fingerprint)
    return (*who, alarm.job_id, alarm.life, alarm.title, alarm.details)


def _escalation(row: asyncpg.Record) -> EscalationRow:
    values = list(row)
    values[_JOBS] = tuple(values[_JOBS])
    return EscalationRow(*values)


_JOBS = EscalationRow.__struct_fields__.index("jobs")
