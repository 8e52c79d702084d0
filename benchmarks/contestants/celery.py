"""Celery on Redis or Valkey."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from celery import Celery as App
from redis import Redis

from benchmarks.contestants.contestant import COROUTINES, Contestant, main

_PREFETCH = 128
_QUEUE = "celery"
_UNACKNOWLEDGED = "unacked"


def make_app(url: str) -> Any:
    """Connect to the store."""
    app = App("benchmarks", broker=url)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=_PREFETCH,
        broker_pool_limit=COROUTINES,
        broker_connection_retry_on_startup=True,
    )
    return app


def make_task(app: Any, handler: Callable[[int], None]) -> Any:
    """Make the task."""
    return app.task(handler, name="record")


def _elsewhere(_number: int) -> None:
    """Stand for the handler on the side that only enqueues."""


class Celery(Contestant):
    """Celery, whose worker is told to acknowledge a message when its task has ended."""

    name = "celery"
    store = "redis"
    packages = ("celery", "kombu", "redis", "hiredis")
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at least once (task_acks_late): acknowledged after the run; taken back after 1 hour",
        "results": "not kept (task_ignore_result)",
        "worker": "celery worker --pool solo, one for each process; no gossip, mingle, heartbeat; warnings logged",
        "pool": "solo, of one process the fastest; threads took more CPU for a job, prefork half as much again or more",
        "prefetch": f"{_PREFETCH} (worker_prefetch_multiplier)",
        "enqueue": f"synchronous: called directly by one, in {COROUTINES} threads by many coroutines",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Empty the database; Celery needs nothing in it."""
        with Redis.from_url(self.url) as redis:
            redis.flushdb()

    async def open(self) -> None:
        """Connect."""
        self._app = make_app(self.url)
        self._task = make_task(self._app, _elsewhere)
        self._redis = Redis.from_url(self.url)
        self._in_threads: bool | None = None
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(COROUTINES))

    async def close(self) -> None:
        """Disconnect."""
        self._redis.close()
        self._app.close()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job, by a thread when others are enqueueing too."""
        if self._in_threads is None:  # asked once, as it takes time; all who enqueue have started by the first call
            self._in_threads = len(asyncio.all_tasks()) > 1
        if self._in_threads:
            await asyncio.to_thread(self._task.delay, number)
        else:
            self._task.delay(number)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command for each process: this pool starts no others."""
        command = [sys.executable, "-m", "celery", "--app", "benchmarks.contestants.celery_worker:app", "worker"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
        return [[*command, "--pool", "solo", "--hostname", f"{number}@bench", *quiet] for number in range(processes)]

    async def open_jobs(self) -> int:
        """Count the messages that wait, and those that were given out and not acknowledged."""
        waiting: Any = self._redis.llen(_QUEUE)
        given_out: Any = self._redis.hlen(_UNACKNOWLEDGED)
        return int(waiting + given_out)


if __name__ == "__main__":
    main(Celery)
