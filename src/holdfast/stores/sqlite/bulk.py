"""Bulk operations, on SQLite."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from holdfast.job import Answer
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.stores.bulk import COUNT_CAP, FAILING_MS, KEPT_DAYS, MOST_ERRORS, BulkOperationRow, NewBulk, read, written
from holdfast.stores.sqlite import jobs, lists, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import Answered, Cursor, JobFilter

_DAY_MS = 86_400_000
_CHANGED = frozenset({Answer.DONE, Answer.REQUESTED})


class SqliteBulk:
    """The verbs of `BulkStore`."""

    connection: Connection

    async def preview_jobs(self, which: JobFilter) -> int:
        return await self.connection.search(lambda connection, now: lists.count(connection, now, which, COUNT_CAP))

    async def start_bulk(self, new: NewBulk) -> BulkOperationRow:
        verb, text = written(new)
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection,
                "start_bulk",
                key=new.key,
                verb=verb,
                filter=text,
                priority=new.priority,
                actor=new.actor,
                reason=new.reason,
                expected=new.expected,
                spacing_us=new.spacing_us,
                now=now,
            )
        )
        return _run(found[0])

    async def next_bulk(self) -> tuple[BulkOperationRow, int] | None:
        found = await self.connection.read(lambda connection, now: statements.fetch(connection, "next_bulk", now=now))
        return (_run(found[0]), found[0][-1]) if found else None

    async def work_bulk(
        self, run: BulkOperationRow, ids: Sequence[int], *, cursor: Cursor | None
    ) -> tuple[BulkOperationRow, frozenset[int]] | None:
        def operation(connection: sqlite3.Connection, now: int) -> tuple[BulkOperationRow, frozenset[int]] | None:
            if not statements.fetch(connection, "lock_bulk", id=run.id, step=run.step):
                return None
            changed = frozenset(one.id for one in _change(connection, now, run, ids) if one.answer in _CHANGED)
            moved = statements.fetch(
                connection,
                "advance_bulk",
                id=run.id,
                done=len(changed),
                refused=len(ids) - len(changed),
                cursor_at=None if cursor is None else rows.milliseconds(cursor.enqueued_at),
                cursor_id=None if cursor is None else cursor.id,
                now=now,
            )
            return _run(moved[0]), changed

        return await self.connection.write(operation)

    async def fail_bulk(self, run: BulkOperationRow, error: str, delay_ms: int) -> BulkOperationRow | None:
        seen = {"id": run.id, "step": run.step, "errors": run.errors}
        bounds = {"most": MOST_ERRORS, "failing_ms": FAILING_MS}
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "fail_bulk", now=now, error=error, delay_ms=delay_ms, **seen, **bounds
            )
        )
        return _run(found[0]) if found else None

    async def change_bulk(self, run: int, state: BulkState) -> BulkOperationRow | None:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(connection, "change_bulk", id=run, state=state.value, now=now)
        )
        return _run(found[0]) if found else None

    async def list_bulk(self, limit: int, *, run: int | None = None) -> list[BulkOperationRow]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_bulk", limit=limit, id=run)
        )
        return [_run(row) for row in found]

    async def prune_bulk(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(
                connection, "prune_bulk", before=now - KEPT_DAYS * _DAY_MS, limit=limit
            )
        )


def _change(connection: sqlite3.Connection, now: int, run: BulkOperationRow, ids: Sequence[int]) -> list[Answered]:
    """Do what the run does."""
    if run.verb is BulkVerb.RETRY:
        return [jobs.retry(connection, now, job_id, None) for job_id in ids]
    if run.verb is BulkVerb.DELETE:
        return jobs.delete(connection, now, ids)
    if run.verb is BulkVerb.REPRIORITISE:
        return jobs.reprioritise(connection, now, ids, run.priority or 0)
    if run.due is not None:
        return jobs.reschedule(connection, now, ids, run_at=run.due.run_at, delay_ms=run.due.delay_ms)
    words = {"cancelled_by": run.actor, "cancel_reason": run.reason}
    return jobs.cancel(connection, now, ids, {name: text for name, text in words.items() if text is not None})


def _run(row: Sequence[Any]) -> BulkOperationRow:
    number, verb, text, priority, actor, reason, state, expected, spacing_us, step, done, refused = row[:12]
    cursor_at, cursor_id, started_at, next_at, ended_at, errors, error, gave_up = row[12:20]
    chosen, which, due = read(verb, text)
    return BulkOperationRow(
        number,
        chosen,
        which,
        priority,
        actor,
        reason,
        BulkState.FAILED if gave_up else BulkState(state),
        expected,
        spacing_us,
        step,
        done,
        refused,
        None if cursor_at is None else Cursor(rows.moment(cursor_at), cursor_id),
        rows.moment(started_at),
        rows.moment(next_at),
        rows.optional_moment(ended_at),
        errors,
        error,
        due,
    )
