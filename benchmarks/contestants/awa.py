"""awa: a queue in PostgreSQL whose engine is written in Rust, with tasks in Python."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from awa import AsyncClient

from benchmarks.contestants.contestant import COROUTINES, LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

WORKERS = 1_000
POOL = 10
_QUEUE = "notes"
_WORK = "work"  # the argument with which this module is the worker

# A job that has ended stays in its segment, with a receipt or a final row beside it, until the segment is truncated.
_OPEN = """
SELECT (SELECT count(*) FROM awa.ready_entries)
    + (SELECT count(*) FROM awa.deferred_jobs)
    - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
    - (SELECT count(*) FROM awa.done_entries) AS jobs
"""


@dataclass
class Note:
    """The arguments of a job."""

    number: int


class Awa(Contestant):
    """awa with its queue storage, the engine that it recommends and that COPY needs."""

    name = "awa"
    store = "postgres"
    packages = ("awa-pg",)
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"AsyncClient.start with max_workers {WORKERS}, one program for each process",
        "storage": "queue storage, defaults: claim batch 512, one claimer, one shard",
        "enqueue pool": f"{POOL} connections for {COROUTINES} coroutines",
        "bulk": "enqueue_many_copy",
        "finished jobs": "receipts, truncated with their segment",
    }

    async def prepare(self) -> None:
        """Make the schema; the database is new."""
        client = AsyncClient(_for_sqlx(self.url))
        await client.migrate()
        await client.install_queue_storage(schema="awa", reset=True)
        await client.close()

    async def open(self) -> None:
        """Connect."""
        self._client: Any = AsyncClient(_for_sqlx(self.url), max_connections=POOL)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def enqueue(self, number: int) -> None:
        """Insert one job."""
        await self._client.insert(Note(number), queue=_QUEUE)

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Copy all jobs into the queue storage."""
        await self._client.enqueue_many_copy([Note(number) for number in numbers], queue=_QUEUE)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One program for each process."""
        return [[sys.executable, "-m", "benchmarks.contestants.awa", _WORK] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count what has neither a receipt nor a final row."""
        transaction = await self._client.transaction()
        try:
            return int((await transaction.fetch_one(_OPEN))["jobs"])
        finally:
            await transaction.rollback()


def _for_sqlx(url: str) -> str:
    """Name a host, which its driver wants to see also where the query names a socket."""
    return url.replace("@/", "@localhost/")


async def _work(url: str, ledger: Ledger) -> None:
    client: Any = AsyncClient(_for_sqlx(url))

    @client.task(Note, queue=_QUEUE)  # type: ignore[untyped-decorator] # not installed here, so untyped
    async def note(job: Any) -> None:
        ledger.record(job.args.number)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await client.start([{"name": _QUEUE, "max_workers": WORKERS}])
    await stop.wait()
    await client.shutdown()


if __name__ == "__main__":
    if sys.argv[1:] == [_WORK]:
        asyncio.run(_work(os.environ[URL], Ledger(os.environ[LEDGER])))
    else:
        main(Awa)
