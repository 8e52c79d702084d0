"""What explains where a job stands, on PostgreSQL."""

from typing import Any

import asyncpg

from holdfast.job import JobRow, JobState
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role
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


class PostgresWhy(Role):
    """The verb of `WhyStore`."""

    async def explain_job(self, job_id: int) -> Evidence | None:
        async def run(connection: Connection) -> Evidence | None:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                found = await connection.fetch(self.queries["get_jobs"], [job_id])
                if not found:
                    return None
                return await self._explain(connection, rows.job(found[0][: rows.ALL_COLUMNS]))

        return await self.pool.call(run)

    async def _explain(self, connection: Connection, job: JobRow) -> Evidence:
        async def ask(query: str, *args: object) -> list[asyncpg.Record]:
            return await connection.fetch(self.queries[query], *args)

        parts: dict[str, Any] = {"now": (await ask("why_now"))[0][0], "job": job}
        if job.is_finished:
            return Evidence(**parts, stopping=tuple(row[0] for row in await ask("why_stopping", job.id)))
        parts["queue"] = next((QueueSeen(*row) for row in await ask("why_queue", job.queue)), QueueSeen())
        parts["workers"] = tuple(WorkerSeen(*row) for row in await ask("why_workers", job.queue, job.kind))
        if job.state is JobState.QUEUED:
            ahead = await ask("why_ahead", job.queue, job.priority, job.position, MOST_AHEAD)
            parts["ahead"] = ahead[0][0]
        elif job.state is JobState.RUNNING:
            parts["owner"] = next((OwnerSeen(*row) for row in await ask("why_owner", job.worker)), None)
            parts["lock"] = next((LockSeen(*row) for row in await ask("why_lock", job.id, job.claim)), None)
        elif (held := read_limit_key(job.limit_key)) is not None:
            holders = tuple(HolderSeen(*row) for row in await ask("why_holders", *held, MOST_HOLDERS))
            found = await ask("why_limit", *held, job.priority, job.position, MOST_AHEAD)
            parts["limit"] = next((_limit(row, holders) for row in found), None)
        elif (budget := read_budget(job.limit_key)) is not None:
            parts["budget"] = next((BudgetSeen(*row) for row in await ask("why_budget", budget, job.id)), None)
        return Evidence(**parts)


def _limit(row: asyncpg.Record, holders: tuple[HolderSeen, ...]) -> LimitSeen:
    name, key, concurrency, throttle_us, burst, fifo, rotate, until, taken, ahead, head = row
    return LimitSeen(name, key, concurrency, throttle_us, burst, fifo, rotate, until, taken, ahead, holders, head)
