"""arq on Redis or Valkey."""

import sys
from collections.abc import Mapping
from typing import ClassVar

from arq.connections import RedisSettings, create_pool
from arq.constants import default_queue_name

from benchmarks.contestants.contestant import Contestant, main

AT_ONCE = 100
POLL_S = 0.01


class Arq(Contestant):
    """arq, which leaves a job in its queue until it has run."""

    name = "arq"
    store = "redis"
    packages = ("arq", "redis", "hiredis", "uvloop")
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at least once: a job leaves the queue after the run; run again 310 s after its worker's death",
        "results": "not kept",
        "worker": f"arq, one command for each process; max_jobs={AT_ONCE}; warnings logged",
        "polling": f"every {POLL_S} s; the default is 0.5 s",
        "loop": "uvloop in the worker",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Empty the database; arq needs nothing in it."""
        await self.open()
        await self._redis.flushdb()
        await self.close()

    async def open(self) -> None:
        """Connect."""
        self._redis = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        """Disconnect."""
        await self._redis.aclose()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job."""
        await self._redis.enqueue_job("record", number)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command for each process: arq starts no others."""
        module = "benchmarks.contestants.arq_worker"
        command = [sys.executable, "-m", "arq", f"{module}.Settings", "--custom-log-dict", f"{module}.LOGGING"]
        return [command] * processes

    async def open_jobs(self) -> int:
        """Count the queue, in which a job stays while it runs."""
        return int(await self._redis.zcard(default_queue_name))


if __name__ == "__main__":
    main(Arq)
