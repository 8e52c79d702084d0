"""Procrastinate: jobs in PostgreSQL through psycopg, fetched one by one."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar

from procrastinate import App, PsycopgConnector

from benchmarks.contestants.contestant import COROUTINES, LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

CONCURRENCY = 30
POOL = 10  # for those who enqueue; more are slower
WORKER_POOL = CONCURRENCY + 2
_WORK = "work"  # the argument with which this module is the worker


class Procrastinate(Contestant):
    """Procrastinate with many jobs at once and a connection for each."""

    name = "procrastinate"
    store = "postgres"
    packages = ("procrastinate", "psycopg", "psycopg-binary")
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"run_worker_async with concurrency {CONCURRENCY}, one program for each process",
        "pools": f"{WORKER_POOL} connections for a worker, {POOL} for {COROUTINES} coroutines that enqueue",
        "wake-up": "LISTEN and NOTIFY (default)",
        "bulk": "batch_defer_async",
        "finished jobs": "marked, with a row of events for each change",
    }

    async def prepare(self) -> None:
        """Make the tables; the database is new."""
        async with _app(self.url).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Connect."""
        self._app = _app(self.url)
        await self._app.open_async()
        self._note = self._app.tasks["note"]

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close_async()

    async def enqueue(self, number: int) -> None:
        """Defer one job."""
        await self._note.defer_async(number=number)

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Defer all jobs by one call."""
        await self._note.batch_defer_async(*({"number": number} for number in numbers))

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One program for each process."""
        return [[sys.executable, "-m", "benchmarks.contestants.procrastinate", _WORK] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count what has no outcome yet."""
        row = await self._app.connector.execute_query_one_async(
            "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status IN ('todo', 'doing', 'aborting')"
        )
        return int(row["jobs"])


def _app(url: str, pool: int = POOL) -> App:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=pool))
    ledger = Ledger(os.environ.get(LEDGER, os.devnull))

    @app.task(name="note")  # type: ignore[untyped-decorator] # not installed here, so untyped
    async def note(number: int) -> None:
        ledger.record(number)

    return app


async def _work(url: str) -> None:
    async with _app(url, WORKER_POOL).open_async() as app:
        await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    if sys.argv[1:] == [_WORK]:
        asyncio.run(_work(os.environ[URL]))
    else:
        main(Procrastinate)
