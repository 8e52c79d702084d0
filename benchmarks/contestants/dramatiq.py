"""Dramatiq on Redis or Valkey."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.contestants.contestant import COROUTINES, Contestant, main
from benchmarks.contestants.ledger import Ledger

_THREADS = 2  # more of them only wait for each other: one interpreter runs one at a time
_PREFETCH = 256
_POLL_MS = 10
_NAMESPACE = "dramatiq"


def make_broker(url: str) -> Any:
    """Connect to the store."""
    return RedisBroker(url=url, namespace=_NAMESPACE)


def make_actor(broker: Any, handler: Callable[..., None]) -> Any:
    """Make the actor."""
    return dramatiq.actor(handler, actor_name="record", broker=broker)


class Dramatiq(Contestant):
    """Dramatiq, which acknowledges a message when its actor has ended."""

    name = "dramatiq"
    store = "redis"
    packages = ("dramatiq", "redis", "hiredis")
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at least once: acknowledged after the run; taken back from a worker without heartbeat for 60 s",
        "results": "not kept",
        "middleware": "the default: limits of age and time, retries and the like",
        "worker": f"dramatiq --processes N --threads {_THREADS}",
        "prefetch": f"{_PREFETCH}; with the default, twice the threads, they would wait for the next poll",
        "polling": f"at most {_POLL_MS} ms apart (dramatiq_worker_timeout); the default is 1000",
        "enqueue": f"synchronous: called directly by one, in {COROUTINES} threads by many coroutines",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Empty the database; Dramatiq needs nothing in it."""
        with make_broker(self.url).client as client:
            client.flushdb()

    async def open(self) -> None:
        """Connect."""
        self._broker = make_broker(self.url)
        self._actor = make_actor(self._broker, Ledger.record)
        self._in_threads: bool | None = None
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(COROUTINES))

    async def close(self) -> None:
        """Disconnect."""
        self._broker.client.close()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job, by a thread when others are enqueueing too."""
        if self._in_threads is None:  # asked once, as it takes time; all who enqueue have started by the first call
            self._in_threads = len(asyncio.all_tasks()) > 1
        if self._in_threads:
            await asyncio.to_thread(self._actor.send, number)
        else:
            self._actor.send(number)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command, which starts the processes."""
        variables = [f"dramatiq_queue_prefetch={_PREFETCH}", f"dramatiq_worker_timeout={_POLL_MS}"]
        command = [sys.executable, "-m", "dramatiq", "benchmarks.contestants.dramatiq_worker:broker"]
        return [["env", *variables, *command, "--processes", str(processes), "--threads", str(_THREADS)]]

    async def open_jobs(self) -> int:
        """Count the messages of the queue and of its delayed ones; they stay there until acknowledged."""
        hashes = [f"{_NAMESPACE}:{queue}.msgs" for queue in ("default", "default.DQ")]
        return sum(int(self._broker.client.hlen(key)) for key in hashes)


if __name__ == "__main__":
    main(Dramatiq)
