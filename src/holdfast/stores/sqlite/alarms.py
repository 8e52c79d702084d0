"""Alarms and escalations, on SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec

from holdfast.stores.alarms import (
    MOST_JOBS,
    QUIET_MS,
    EscalationRow,
    NewNotice,
    NoticeRow,
    Pace,
    PolicyState,
    Waiting,
)
from holdfast.stores.sqlite import rows as reading
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import Connection


class SqliteAlarms:
    """The verbs of `AlarmStore`."""

    connection: Connection

    async def define_escalations(self, policies: Sequence[str]) -> None:
        await self.connection.write(
            lambda connection, now: statements.change_many(
                connection, "define_escalations", [{"name": name, "now": now} for name in policies]
            )
        )

    async def fold_alarms(self, policies: Mapping[str, Sequence[str]], limit: int) -> int:
        named = statements.array(policies)
        # A look first: nobody's turn to write is taken while there is nothing to take.
        if not await self.connection.read(
            lambda connection, _: statements.fetch_value(connection, "has_alarms", policies=named)
        ):
            return 0

        def operation(connection: sqlite3.Connection, _now: int) -> int:
            taken = statements.fetch(connection, "take_alarms", policies=named, limit=limit)
            statements.change(connection, "drop_alarms", ids=statements.array(row[0] for row in taken))
            for group in _together(taken, policies):
                statements.change(connection, "fold_alarms", most_jobs=MOST_JOBS, **group)
            return len(taken)

        return await self.connection.write(operation)

    async def waiting_escalations(self, policies: Sequence[str], digests: Sequence[str], limit: int) -> Waiting:
        def operation(connection: sqlite3.Connection, now: int) -> Waiting:
            named = statements.array(policies)
            states = statements.fetch(connection, "escalation_states", policies=named)
            found = statements.fetch(
                connection,
                "waiting_escalations",
                policies=named,
                digests=statements.array(digests),
                limit=limit,
                now=now,
                quiet_ms=QUIET_MS,
            )
            return Waiting(
                reading.moment(now),
                tuple(
                    PolicyState(name, reading.optional_moment(until), reading.moment(at)) for name, until, at in states
                ),
                tuple(_escalation(row) for row in found),
            )

        return await self.connection.read(operation)

    async def undigested(self, policy: str, limit: int) -> list[EscalationRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "undigested", policy=policy, limit=limit, now=now)
        )
        return [_escalation(row) for row in found]

    async def move_escalation(
        self, before: EscalationRow, after: EscalationRow, notices: Sequence[NewNotice], pace: Pace | None = None
    ) -> bool:
        asked = {
            "id": before.id,
            "version": before.version,
            "count": before.count,
            "stage": after.stage,
            "said": after.said,
        } | {name: _optional_ms(getattr(after, name)) for name in _MOVED_TIMES}

        def operation(connection: sqlite3.Connection, now: int) -> bool:
            with _Attempt(connection) as attempt:
                if (pace is None or _take_pace(connection, now, pace)) and statements.fetch(
                    connection, "move_escalation", **asked
                ):
                    _write(connection, now, notices)
                    attempt.is_done = True
            return attempt.is_done

        return await self.connection.write(operation)

    async def tell_together(
        self,
        rows: Sequence[EscalationRow],
        notices: Sequence[NewNotice],
        *,
        due_at: datetime | None,
        pace: Pace | None = None,
        digest: tuple[str, datetime] | None = None,
    ) -> bool:
        asked = {"due_at": _optional_ms(due_at), "is_digest": digest is not None}

        def operation(connection: sqlite3.Connection, now: int) -> bool:
            with _Attempt(connection) as attempt:
                if (
                    (digest is None or _take_digest(connection, digest))
                    and (pace is None or _take_pace(connection, now, pace))
                    and all(
                        statements.fetch(connection, "tell_together", id=row.id, count=row.count, now=now, **asked)
                        for row in rows
                    )
                ):
                    _write(connection, now, notices)
                    attempt.is_done = True
            return attempt.is_done

        return await self.connection.write(operation)

    async def ack_escalation(self, escalation: int, *, actor: str | None, note: str | None) -> EscalationRow | None:
        return await self._escalation_after("ack_escalation", {"id": escalation, "actor": actor, "note": note})

    async def snooze_escalation(
        self, escalation: int, *, until: datetime | None, delay_ms: int | None, actor: str | None
    ) -> EscalationRow | None:
        asked = {"id": escalation, "until": _optional_ms(until), "delay_ms": delay_ms, "actor": actor}
        return await self._escalation_after("snooze_escalation", asked)

    async def get_escalation(self, escalation: int) -> tuple[EscalationRow, list[NoticeRow]] | None:
        def operation(connection: sqlite3.Connection, _now: int) -> tuple[EscalationRow, list[NoticeRow]] | None:
            found = statements.fetch(connection, "get_escalation", id=escalation)
            if not found:
                return None
            written = statements.fetch(connection, "notices_of", escalation=escalation)
            return _escalation(found[0]), [_notice(row) for row in written]

        return await self.connection.read(operation)

    async def list_escalations(
        self, *, is_open: bool | None, policy: str | None, limit: int, before: int | None
    ) -> list[EscalationRow]:
        asked = {"is_open": is_open, "policy": policy, "limit": limit, "before": before}
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_escalations", **asked)
        )
        return [_escalation(row) for row in found]

    async def prune_alarms(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            queries = ("prune_alarms", "prune_escalations", "prune_notices")
            return max(statements.change(connection, query, now=now, limit=limit) for query in queries)

        return await self.connection.write(operation)

    async def _escalation_after(self, query: str, asked: Mapping[str, object]) -> EscalationRow | None:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(connection, query, now=now, **asked)
        )
        return _escalation(found[0]) if found else None


class _Attempt:
    """Changes of which nothing stays unless all could be made: somebody else was first."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.is_done = False
        self._connection = connection

    def __enter__(self) -> Self:
        self._connection.execute("SAVEPOINT telling")
        return self

    def __exit__(self, *raised: object) -> None:
        if not self.is_done:
            self._connection.execute("ROLLBACK TO telling")
        self._connection.execute("RELEASE telling")


def _together(taken: Sequence[statements.Row], policies: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Bring alarms together that one escalation counts, as what `fold_alarms` takes; the latest one describes it."""
    groups: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for _, policy, source, queue, kind, fingerprint, job_id, title, details, at in taken:
        if source not in policies[policy]:
            continue
        known = groups.setdefault(
            (policy, source, kind, fingerprint),
            {"jobs": [], "count": 0, "first_at": at, "last_at": at},
        )
        known |= {"policy": policy, "source": source, "queue": queue, "kind": kind, "fingerprint": fingerprint}
        known |= {"title": title, "details": details, "count": known["count"] + 1}
        known |= {"first_at": min(known["first_at"], at), "last_at": max(known["last_at"], at)}
        if job_id is not None:
            known["jobs"] = [job_id, *known["jobs"]][:MOST_JOBS]
    return [group | {"jobs": statements.array(group["jobs"])} for group in groups.values()]


def _take_pace(connection: sqlite3.Connection, now: int, pace: Pace) -> bool:
    return bool(statements.fetch(connection, "take_pace", now=now, **msgspec.structs.asdict(pace)))


def _take_digest(connection: sqlite3.Connection, digest: tuple[str, datetime]) -> bool:
    policy, at = digest
    return bool(statements.fetch(connection, "take_digest", policy=policy, at=reading.milliseconds(at)))


def _write(connection: sqlite3.Connection, now: int, notices: Sequence[NewNotice]) -> None:
    written = [msgspec.structs.asdict(notice) | {"now": now} for notice in notices]
    statements.change_many(connection, "write_notices", written)


def _optional_ms(at: datetime | None) -> int | None:
    return None if at is None else reading.milliseconds(at)


def _escalation(row: statements.Row) -> EscalationRow:
    values = list(row)
    values[_JOBS] = tuple(msgspec.json.decode(values[_JOBS]))
    for place in _TIMES:
        values[place] = reading.optional_moment(values[place])
    return EscalationRow(*values)


def _notice(row: statements.Row) -> NoticeRow:
    identity, escalation, policy, channel, event, created, state, tries, following, ended, error = row
    times = reading.moment(created), state, tries, reading.moment(following), reading.optional_moment(ended)
    return NoticeRow(identity, escalation, policy, channel, event, *times, error)


_FIELDS = EscalationRow.__struct_fields__
_JOBS = _FIELDS.index("jobs")
_TIMES = tuple(place for place, field in enumerate(_FIELDS) if field.endswith("_at") or field == "snoozed_until")
_MOVED_TIMES = ("told_at", "due_at", "snoozed_until", "ack_told_at", "closed_at", "resolved_at")
