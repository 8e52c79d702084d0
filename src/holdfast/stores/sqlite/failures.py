"""Dead letters, on SQLite."""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.job import NewJob
from holdfast.stores.failures import (
    KEPT_DAYS,
    LEFT_CAP,
    DeadCursor,
    DeadFilter,
    DeadLetterRow,
    DeadPage,
    group_id,
    page_of,
)
from holdfast.stores.sqlite import inserting, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import Inserted

_DAY_MS = 86_400_000
_UNFOLDED = 10_001


class SqliteFailures:
    """The verbs of `FailureStore`."""

    connection: Connection

    async def fold_failures(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, _now: int) -> int:
            taken = statements.fetch(connection, "read_failures", limit=limit)
            failures = [_of_inbox(row) for row in taken]
            groups = [_parameters(group) for group in _joined(failures)]
            statements.change_many(connection, "fold_failures", groups)
            parts = [_parameters(part) for part in _joined(failures, by_queue=True)]
            statements.change_many(connection, "fold_failures_by_queue", parts)
            statements.change(connection, "forget_failures", ids=statements.array(row[0] for row in taken))
            return len(taken)

        return await self.connection.write(operation)

    async def list_dead_letters(self, which: DeadFilter, *, limit: int, after: DeadCursor | None = None) -> DeadPage:
        def operation(connection: sqlite3.Connection, now: int) -> DeadPage:
            mine = statements.array(which.queues)
            folded = map(_of_row, statements.fetch(connection, "list_dead_letters", queues=mine))
            unfolded = map(_of_inbox, statements.fetch(connection, "read_failures", limit=_UNFOLDED))
            groups = _joined([*folded, *(one for one in unfolded if not which.queues or one.queue in which.queues)])
            found: list[DeadLetterRow] = []
            for group in sorted(groups, key=lambda group: (group.last_at, group.id), reverse=True):
                if not _fits(group, which, after):
                    continue
                left = _left(connection, now, group, which.queues)
                if left or which.empty:
                    found.append(msgspec.structs.replace(group, left=left))
                if len(found) > limit:
                    break
            return page_of(found, limit)

        return await self.connection.read(operation)

    async def insert_replay(self, job: NewJob, origin: int, *, again: bool = False) -> Inserted:
        def operation(connection: sqlite3.Connection, now: int) -> Inserted:
            (inserted,) = inserting.insert(connection, now, [job], again=again)
            statements.change(connection, "name_origin", id=job.id, origin=origin)
            return inserted

        return await self.connection.write(operation)

    async def prune_dead_letters(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            before = now - KEPT_DAYS * _DAY_MS
            gone = statements.change(connection, "prune_dead_letters", before=before, limit=limit)
            statements.change(connection, "prune_dead_letter_queues", before=before, limit=limit)
            return gone

        return await self.connection.write(operation)


def _of_inbox(row: statements.Row) -> DeadLetterRow:
    """Read a failure as a group of its own."""
    _, at, job_id, kind, queue, fingerprint, error_class, error = row
    moment = rows.moment(at)
    return DeadLetterRow(
        group_id(kind, fingerprint), kind, fingerprint, queue, error_class, error, 1, moment, moment, job_id, 0
    )


def _of_row(row: statements.Row) -> DeadLetterRow:
    group, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job = row
    first, last = rows.moment(first_at), rows.moment(last_at)
    return DeadLetterRow(group, kind, fingerprint, queue, error_class, error, seen, first, last, last_job, 0)


def _joined(parts: Iterable[DeadLetterRow], *, by_queue: bool = False) -> list[DeadLetterRow]:
    """Add up what belongs to the same group, or to its part in one queue; the latest says how it looked."""
    groups: dict[tuple[str, str | None], DeadLetterRow] = {}
    for part in parts:
        key = part.id, part.queue if by_queue else None
        known = groups.get(key, part)
        latest = part if part.last_at >= known.last_at else known
        groups[key] = msgspec.structs.replace(
            latest,
            seen=part.seen if known is part else known.seen + part.seen,
            first_at=min(known.first_at, part.first_at),
        )
    return list(groups.values())


def _parameters(group: DeadLetterRow) -> dict[str, object]:
    return {
        **{name: getattr(group, name) for name in ("id", "kind", "fingerprint", "queue", "error_class", "error")},
        "seen": group.seen,
        "first_at": rows.milliseconds(group.first_at),
        "last_at": rows.milliseconds(group.last_at),
        "last_job": group.last_job,
    }


def _fits(group: DeadLetterRow, which: DeadFilter, after: DeadCursor | None) -> bool:
    return (
        (not which.ids or group.id in which.ids)
        and (not which.kinds or group.kind in which.kinds)
        and which.error_class in (None, group.error_class)
        and (which.since is None or group.last_at >= which.since)
        and (after is None or (group.last_at, group.id) < (after.last_at, after.id))
    )


def _left(connection: sqlite3.Connection, now: int, group: DeadLetterRow, queues: Sequence[str]) -> int:
    which = {"kind": group.kind, "fingerprint": group.fingerprint, "now": now, "cap": LEFT_CAP}
    if not queues:
        return int(statements.fetch_value(connection, "dead_jobs_left", **which))
    left = sum(statements.fetch_value(connection, "dead_jobs_left_in", queue=queue, **which) for queue in queues)
    return min(int(left), LEFT_CAP)
