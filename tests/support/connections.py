"""Jobs, workers and claims for tests, made through the store's own verbs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from holdfast import failure
from holdfast.job import JobRow, NewJob
from holdfast.stores.migrate import load_functions
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Claim, Lane, WorkerProcess
from tests.support.wait import until

FAILURE = failure.from_text("ValueError", "no such page")
LONG_LEASE_MS = 3_600_000
PATIENCE_S = 30.0
_AT_ONCE = 50
_batches = count(1)


def show(figure: str) -> None:
    """Print a figure, for whoever runs the tests with `-s` or `make chaos`."""
    print(figure)  # noqa: T201 - figures in milliseconds are printed, not asserted


def new_job(job_id: int, **fields: Any) -> NewJob:
    """Describe a job; every field has a default."""
    given: dict[str, Any] = {
        "kind": "work",
        "queue": "default",
        "priority": 5,
        "payload": "{}",
        "max_attempts": 5,
        "max_crashes": 3,
        "timeout_ms": 3_600_000,
    }
    return NewJob(id=job_id, **(given | fields))


async def insert(store: PostgresStore, jobs: int, **fields: Any) -> list[int]:
    """Store jobs that are all alike."""
    ids = await store.take_ids(jobs)
    await store.insert_jobs([new_job(job_id, **fields) for job_id in ids])
    return ids


async def register(store: PostgresStore, lease_ms: int = LONG_LEASE_MS) -> int:
    """Enter a worker."""
    return await store.register_worker(WorkerProcess("test", "localhost", 1), lease_ms)


def request(worker: int, limit: int = 1, *, queue: str = "default", priority: int = 5) -> Claim:
    """Ask for jobs of one lane under a batch number of its own."""
    return Claim(worker, next(_batches), limit, (Lane(queue, priority, limit),))


async def running(store: PostgresStore, jobs: int, **fields: Any) -> list[JobRow]:
    """Store jobs and have one worker claim them all."""
    await insert(store, jobs, **fields)
    claimed = await store.claim_jobs(request(await register(store), jobs, queue=fields.get("queue", "default")))
    assert len(claimed) == jobs
    return claimed


async def running_alone(store: PostgresStore, jobs: int, **fields: Any) -> list[JobRow]:
    """Store jobs and have each claimed by a worker of its own."""
    await insert(store, jobs, **fields)
    enough = asyncio.Semaphore(_AT_ONCE)

    async def one() -> JobRow:
        async with enough:
            (job,) = await store.claim_jobs(request(await register(store)))
            return job

    return await asyncio.gather(*(one() for _ in range(jobs)))


async def expire(connection: Connection, schema: str, workers: Sequence[int]) -> None:
    """Let the leases of workers end now."""
    sql = "UPDATE holdfast.workers SET lease_until = holdfast.clock() - interval '1 second' WHERE id = ANY ($1)"
    await connection.execute(in_schema(sql, schema), workers)


async def replace_function(connection: Connection, schema: str, name: str, *changes: tuple[str, str]) -> None:
    """Make a function of the store anew with changed text: a guard removed."""
    (sql,) = [function.sql for function in load_functions("holdfast.stores.postgres") if function.name == name]
    for old, new in changes:
        assert sql.count(old) == 1, f"{name}: {old!r} occurs {sql.count(old)} times"
        sql = sql.replace(old, new)
    await connection.execute(in_schema(sql, schema))


async def waiting(connection: Connection, schema: str) -> int:
    """Count the sessions that wait for a lock with a statement on this schema."""
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0", schema
        )
    )


async def until_held_up(connection: Connection, schema: str, *tasks: "asyncio.Task[Any]") -> None:
    """Wait until every task has either ended or waits for a lock."""

    async def held_up() -> bool:
        open_tasks = [task for task in tasks if not task.done()]
        return await waiting(connection, schema) >= len(open_tasks)

    await until(held_up, "all tasks wait for a lock")


def in_database(dsn: str, name: str) -> str:
    """Address another database of the same server."""
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Open a connection that is not of a store; it is cut at the end, whatever it is doing."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        connection.terminate()
