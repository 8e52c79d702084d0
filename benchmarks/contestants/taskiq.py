"""taskiq on a stream of Redis or Valkey."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from redis.asyncio import Redis
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

from benchmarks.contestants.contestant import Contestant, main

_STREAM = "taskiq"
_READ = 100
_AT_ONCE = 100


def make_broker(url: str) -> Any:
    """Connect to the store; the group reads from the stream's beginning, or it would miss what came before it."""
    broker = RedisStreamBroker(url, queue_name=_STREAM, consumer_id="0", xread_count=_READ)
    return broker.with_serializer(ORJSONSerializer())


def make_task(broker: Any, handler: Callable[[int], Awaitable[None]]) -> Any:
    """Make the task."""
    return broker.register_task(handler, task_name="record")


async def _elsewhere(_number: int) -> None:
    """Stand for the handler on the side that only enqueues."""


class Taskiq(Contestant):
    """taskiq, with the one of its brokers on Redis that acknowledges."""

    name = "taskiq"
    store = "redis"
    packages = ("taskiq", "taskiq-redis", "redis", "hiredis", "orjson", "uvloop")
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at least once: acknowledged after the run; taken over when idle for 600 s",
        "broker": "RedisStreamBroker, the one that acknowledges; the stream is not trimmed",
        "results": "not kept",
        "worker": f"taskiq worker --workers N --max-async-tasks {_AT_ONCE} --no-parse; warnings logged",
        "read": f"{_READ} messages at once",
        "serializer": "orjson",
        "loop": "uvloop in the worker",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Empty the database, and make the stream and its group."""
        async with Redis.from_url(self.url) as redis:
            await redis.flushdb()
        await self.open()
        await self.close()

    async def open(self) -> None:
        """Connect."""
        self._broker = make_broker(self.url)
        self._task = make_task(self._broker, _elsewhere)
        await self._broker.startup()
        self._redis = Redis.from_url(self.url)

    async def close(self) -> None:
        """Disconnect."""
        await self._redis.aclose()
        await self._broker.shutdown()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job."""
        await self._task.kiq(number)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command, which starts the processes."""
        worker = [sys.executable, "-m", "taskiq", "worker", "benchmarks.contestants.taskiq_worker:broker"]
        limits = ["--workers", str(processes), "--max-async-tasks", str(_AT_ONCE)]
        return [[*worker, *limits, "--no-parse", "--log-level", "WARNING"]]

    async def open_jobs(self) -> int:
        """Count what the group has not been given, and what it has not acknowledged."""
        # Not the length of the stream: it keeps what was acknowledged.
        [group] = await self._redis.xinfo_groups(_STREAM)
        return int(group["lag"] + group["pending"])


if __name__ == "__main__":
    main(Taskiq)
