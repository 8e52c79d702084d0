"""PgQueuer: jobs in PostgreSQL through asyncpg, dequeued in batches."""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import asyncpg
import pgqueuer
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.contestants.contestant import COROUTINES, LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

BATCH = 1_000
POOL = 5  # more are slower: its NOTIFY lets one transaction after the other commit
WORKER_POOL = 5
_ENTRYPOINT = "note"
_WORK = "work"  # the argument with which this module is the worker


class PgQueuerContestant(Contestant):
    """PgQueuer with its largest useful batch, on a pool and on the uvloop that it brings."""

    name = "pgqueuer"
    store = "postgres"
    packages = ("pgqueuer", "asyncpg", "uvloop")
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"pgqueuer.run with batch_size={BATCH} on uvloop, as `pgq run` does; one for each process",
        "worker pool": f"{WORKER_POOL} connections, not reset between calls",
        "enqueue pool": f"{POOL} connections for {COROUTINES} coroutines, not reset between calls",
        "durability": "durable (default): every table is logged",
        "finished jobs": "deleted, with two rows in its log for each",
    }

    async def prepare(self) -> None:
        """Install the tables anew."""
        connection = await asyncpg.connect(self.url)
        queries = Queries.from_asyncpg_connection(connection)
        if await queries.schema_is_installed():
            await queries.uninstall()
        await queries.install()
        await connection.close()

    async def open(self) -> None:
        """Connect."""
        self._pool = await asyncpg.create_pool(self.url, min_size=1, max_size=POOL, reset=_leave)
        self._queries = Queries.from_asyncpg_pool(self._pool)

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.close()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job."""
        await self._queries.enqueue(_ENTRYPOINT, str(number).encode())

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Enqueue all by one call with lists."""
        payloads: list[bytes | None] = [str(number).encode() for number in numbers]
        await self._queries.enqueue([_ENTRYPOINT] * len(numbers), payloads, [0] * len(numbers))

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command for each process."""
        return [[sys.executable, "-m", "benchmarks.contestants.pgqueuer", _WORK] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count the queue; a job that has ended is deleted from it."""
        return int(await self._pool.fetchval("SELECT count(*) FROM pgqueuer"))


async def _leave(connection: object) -> None:
    """Give a connection back as it is: nothing is set on a session, and the default is a round trip for each call."""


@asynccontextmanager
async def worker() -> AsyncIterator[PgQueuer]:
    """Make what `pgqueuer.run` runs."""
    ledger = Ledger(os.environ[LEDGER])
    async with asyncpg.create_pool(os.environ[URL], min_size=2, max_size=WORKER_POOL, reset=_leave) as pool:
        queue = PgQueuer.from_asyncpg_pool(pool)

        @queue.entrypoint(_ENTRYPOINT)  # type: ignore[untyped-decorator] # not installed here, so untyped
        async def note(job: Job) -> None:
            ledger.record(int(job.payload or b""))

        yield queue


if __name__ == "__main__":
    if sys.argv[1:] == [_WORK]:
        # Not through the command `pgq run`: with the typer release above it fails to read its own log level.
        uvloop.run(pgqueuer.run(worker, batch_size=BATCH))
    else:
        main(PgQueuerContestant)
