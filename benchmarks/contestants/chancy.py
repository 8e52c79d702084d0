"""Chancy: jobs in PostgreSQL through psycopg, run by executors of several kinds."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar

from chancy import Chancy, Job, Queue, Worker, job

from benchmarks.contestants.contestant import COROUTINES, LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

CONCURRENCY = 1_000
POOL = 10
FLUSH_S = 0.05
_QUEUE = "default"
_WORK = "work"  # the argument with which this module is the worker


class ChancyContestant(Contestant):
    """Chancy with its executor for coroutines, and with its queue polled as soon as a job has ended."""

    name = "chancy"
    store = "postgres"
    packages = ("chancy", "psycopg", "psycopg-binary")
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"AsyncExecutor, concurrency {CONCURRENCY}, eager polling; one program for each process",
        "outcomes": f"written every {FLUSH_S:g} s instead of every second",
        "enqueue pool": f"{POOL} connections for {COROUTINES} coroutines",
        "plugins": "defaults",
        "logging": "warnings",
        "bulk": "push_many, batches of 1,000 (default)",
        "finished jobs": "marked, pruned later",
    }

    async def prepare(self) -> None:
        """Make the tables and the queue; the database is new."""
        async with _app(self.url) as app:
            await app.migrate()
            queue = Queue(
                name=_QUEUE,
                concurrency=CONCURRENCY,
                executor=Chancy.Executor.Async,
                eager_polling=True,
                polling_interval=1,
            )
            await app.declare(queue, upsert=True)

    async def open(self) -> None:
        """Connect."""
        self._app = _app(self.url)
        await self._app.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self._app.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        """Push one job."""
        await self._app.push(_job(number))

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Push all jobs, batch by batch."""
        async for _ in self._app.push_many([_job(number) for number in numbers]):
            pass

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One program for each process."""
        return [[sys.executable, "-m", "benchmarks.contestants.chancy", _WORK] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count what has no outcome yet."""
        async with self._app.pool.connection() as connection:
            counted = await connection.execute(
                "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')"
            )
            row = await counted.fetchone()
        return int(row[0])


def _app(url: str) -> Chancy:
    log = logging.getLogger("chancy")
    log.setLevel(logging.WARNING)  # it would write a line for each job
    return Chancy(url, max_connection_pool_size=POOL, log=log)


_ledger = Ledger(os.environ.get(LEDGER, os.devnull))


@job(queue=_QUEUE)  # type: ignore[untyped-decorator] # not installed here, so untyped
async def note(*, number: int) -> None:
    """Record that this job ran."""
    _ledger.record(number)


def _job(number: int) -> Job:
    # By its importable name: here it would be that of the program that was started.
    return Job(func="benchmarks.contestants.chancy.note", queue=_QUEUE, kwargs={"number": number})


async def _work(url: str) -> None:
    async with _app(url) as app:
        worker = Worker(app)
        worker.send_outgoing_interval = FLUSH_S
        async with worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    if sys.argv[1:] == [_WORK]:
        asyncio.run(_work(os.environ[URL]))
    else:
        main(ChancyContestant)
