"""SAQ on Redis or Valkey."""

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from saq import Queue

from benchmarks.contestants.contestant import Contestant, main

AT_ONCE = 10
_RETRIES = 3


def make_queue(url: str) -> Any:
    """Connect to the store."""
    return Queue.from_url(url)


class Saq(Contestant):
    """SAQ, which keeps a job in its list of active ones while it runs."""

    name = "saq"
    store = "redis"
    packages = ("saq", "redis", "hiredis", "uvloop")
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at least once: taken back by the sweeper when its timeout of 10 s has passed",
        "retries": f"{_RETRIES}; with the default of 1, a job whose worker died would be given up",
        "results": "not kept",
        "worker": f"saq, one command for each process; concurrency={AT_ONCE}",
        "loop": "uvloop in the worker",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Empty the database; SAQ needs nothing in it."""
        await self.open()
        await self._queue.redis.flushdb()
        await self.close()

    async def open(self) -> None:
        """Connect."""
        self._queue = make_queue(self.url)
        await self._queue.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self._queue.disconnect()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job, of which nothing is kept when it has ended."""
        await self._queue.enqueue("record", number=number, ttl=-1, retries=_RETRIES)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command for each process: of the processes of `--workers`, SIGTERM would end the first only."""
        return [[sys.executable, "-m", "saq", "benchmarks.contestants.saq_worker.settings"]] * processes

    async def open_jobs(self) -> int:
        """Count the incomplete jobs: queued, active and scheduled."""
        return int(await self._queue.count("incomplete"))


if __name__ == "__main__":
    main(Saq)
