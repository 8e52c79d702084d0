"""What explains where a job stands, on SQLite."""

import sqlite3
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job import JobRow, JobState
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.limit_keys import key_of
from holdfast.stores.why import (
    MOST_AHEAD,
    MOST_HOLDERS,
    BudgetSeen,
    Evidence,
    HolderSeen,
    LimitSeen,
    LockSeen,
    OwnerSeen,
    QueueSeen,
    WorkerSeen,
    read_budget,
    read_limit_key,
)


class SqliteWhy:
    """The verb of `WhyStore`."""

    connection: Connection

    async def explain_job(self, job_id: int) -> Evidence | None:
        def operation(connection: sqlite3.Connection, now: int) -> Evidence | None:
            found = statements.fetch(connection, "get_jobs", ids=statements.array([job_id]), now=now)
            return _explain(connection, now, rows.job(found[0])) if found else None

        return await self.connection.read(operation)


def _explain(connection: sqlite3.Connection, now: int, job: JobRow) -> Evidence:
    def ask(query: str, **parameters: object) -> list[statements.Row]:
        return statements.fetch(connection, query, now=now, **parameters)

    parts: dict[str, Any] = {"now": rows.moment(ask("why_now")[0][0]), "job": job}
    if job.is_finished:
        return Evidence(**parts, stopping=tuple(row[0] for row in ask("why_stopping", id=job.id)))
    parts["queue"] = next((_queue(row) for row in ask("why_queue", queue=job.queue)), QueueSeen())
    parts["workers"] = tuple(
        WorkerSeen(worker, instance, slots, running, here, None if knows is None else bool(knows))
        for worker, instance, slots, running, here, knows in ask("why_workers", queue=job.queue, kind=job.kind)
    )
    if job.state is JobState.QUEUED:
        lane = {"queue": job.queue, "priority": job.priority, "position": job.position}
        parts["ahead"] = ask("why_ahead", **lane, most=MOST_AHEAD)[0][0]
    elif job.state is JobState.RUNNING:
        owners = ask("why_owner", worker=job.worker)
        parts["owner"] = next((OwnerSeen(row[0], row[1], row[2], bool(row[3])) for row in owners), None)
        parts["lock"] = next((LockSeen(*row) for row in ask("why_lock", id=job.id, claim=job.claim)), None)
    elif (held := read_limit_key(job.limit_key)) is not None:
        parts["limit"] = _limit(connection, job, *held)
    elif (budget := read_budget(job.limit_key)) is not None:
        parts["budget"] = _budget(connection, now, job, budget)
    return Evidence(**parts)


def _queue(row: statements.Row) -> QueueSeen:
    paused_at, paused_by, paused_reason, closed_until, definition = row
    closed = rows.optional_moment(closed_until)
    return QueueSeen(rows.optional_moment(paused_at), paused_by, paused_reason, closed, definition)


def _limit(connection: sqlite3.Connection, job: JobRow, name: str, key: str) -> LimitSeen | None:
    holders = tuple(
        HolderSeen(job_id, kind, bool(is_stopping))
        for job_id, kind, is_stopping in statements.fetch(
            connection, "why_holders", name=name, key=key, most=MOST_HOLDERS
        )
    )
    place = {"priority": job.priority, "position": job.position}
    found = statements.fetch(connection, "why_limit", name=name, key=key, most=MOST_AHEAD, **place)
    for _, _, concurrency, throttle_us, burst, fifo, rotate, until, taken, ahead, head in found:
        spaced = _from_us(until)
        return LimitSeen(
            name, key, concurrency, throttle_us, burst, bool(fifo), bool(rotate), spaced, taken, ahead, holders, head
        )
    return None


def _from_us(until: int | None) -> datetime | None:
    """Read a time of a throttle, which is kept to the microsecond."""
    return None if until is None else rows.moment(until // 1_000)


def _budget(connection: sqlite3.Connection, now: int, job: JobRow, name: str) -> BudgetSeen | None:
    for (path,) in statements.fetch(connection, "why_path", name=name):
        steps = msgspec.json.decode(path, type=list[str])
        key = key_of(steps, job.payload_json, job.tags, job.actor, job.kind, job.queue)
        for row in statements.fetch(connection, "why_budget", name=name, key=key, now=now):
            return BudgetSeen(*row)
    return None
