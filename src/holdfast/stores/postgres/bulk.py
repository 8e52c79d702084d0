"""Bulk operations, on PostgreSQL."""

from collections.abc import Sequence

import asyncpg

from holdfast.job import Answer
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.stores.bulk import COUNT_CAP, FAILING_MS, KEPT_DAYS, MOST_ERRORS, BulkOperationRow, NewBulk, read, written
from holdfast.stores.postgres import lists, rows
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Cursor, JobFilter

_CHANGED = frozenset({Answer.DONE, Answer.REQUESTED})


class PostgresBulk(Role):
    """The verbs of `BulkStore`."""

    async def preview_jobs(self, which: JobFilter) -> int:
        sql, args = lists.count(which, COUNT_CAP)
        found = await self.pool.search(lambda connection: connection.fetchval(in_schema(sql, self.schema), *args))
        return min(int(found), COUNT_CAP)

    async def start_bulk(self, new: NewBulk) -> BulkOperationRow:
        found = await self.fetch(
            "start_bulk",
            new.key,
            *written(new),
            new.priority,
            new.actor,
            new.reason,
            new.expected,
            new.spacing_us,
        )
        return _run(found[0])

    async def next_bulk(self) -> tuple[BulkOperationRow, int] | None:
        found = await self.fetch("next_bulk")
        return (_run(found[0]), found[0]["wait_ms"]) if found else None

    async def work_bulk(
        self, run: BulkOperationRow, ids: Sequence[int], *, cursor: Cursor | None
    ) -> tuple[BulkOperationRow, frozenset[int]] | None:
        async def work(connection: Connection) -> tuple[BulkOperationRow, frozenset[int]] | None:
            async with connection.transaction():
                if not await connection.fetch(self.queries["lock_bulk"], run.id, run.step):
                    return None
                query, args = _change(run)
                answers = await connection.fetch(self.queries[query], sorted(ids), *args) if ids else []
                changed = frozenset(row[0] for row in answers if Answer(row[1]) in _CHANGED)
                place = (None, None) if cursor is None else (cursor.enqueued_at, cursor.id)
                counts = (len(changed), len(ids) - len(changed))
                moved = await connection.fetch(self.queries["advance_bulk"], run.id, *counts, *place)
                return _run(moved[0]), changed

        return await self.pool.call(work)

    async def fail_bulk(self, run: BulkOperationRow, error: str, delay_ms: int) -> BulkOperationRow | None:
        seen = (run.id, run.step, run.errors)
        found = await self.fetch("fail_bulk", *seen, error, delay_ms, MOST_ERRORS, FAILING_MS)
        return _run(found[0]) if found else None

    async def change_bulk(self, run: int, state: BulkState) -> BulkOperationRow | None:
        found = await self.fetch("change_bulk", run, state.value)
        return _run(found[0]) if found else None

    async def list_bulk(self, limit: int, *, run: int | None = None) -> list[BulkOperationRow]:
        return [_run(row) for row in await self.fetch("list_bulk", limit, run)]

    async def prune_bulk(self, limit: int) -> int:
        return len(await self.fetch("prune_bulk", limit, KEPT_DAYS))


def _change(run: BulkOperationRow) -> tuple[str, tuple[object, ...]]:
    """Name the query of a run's verb, and what it takes beside the jobs."""
    if run.verb is BulkVerb.RETRY:
        return "retry_jobs", (None,)
    if run.verb is BulkVerb.DELETE:
        return "delete_jobs", ()
    if run.verb is BulkVerb.REPRIORITISE:
        return "reprioritise_jobs", (run.priority,)
    if run.due is not None:
        return "reschedule_jobs", (run.due.run_at, run.due.delay_ms)
    words = {"cancelled_by": run.actor, "cancel_reason": run.reason}
    notes = {name: text for name, text in words.items() if text is not None}
    return "cancel_jobs", (rows.json_text(notes) if notes else None,)


def _run(row: asyncpg.Record) -> BulkOperationRow:
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
        None if cursor_at is None else Cursor(cursor_at, cursor_id),
        started_at,
        next_at,
        ended_at,
        errors,
        error,
        due,
    )
