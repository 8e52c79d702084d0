"""Holdfast on PostgreSQL, with the ids of waiting jobs by way of Redis or Valkey."""

from collections.abc import Mapping
from typing import ClassVar

from redis.asyncio import Redis

from benchmarks.contestants.contestant import main
from benchmarks.contestants.holdfast_postgres import HoldfastOnPostgres


class HoldfastOnRedis(HoldfastOnPostgres):
    """Jobs in PostgreSQL, full durability as ever; Redis may lose all that it has without losing one."""

    store = "redis"
    packages = (*HoldfastOnPostgres.packages, "redis", "hiredis")
    settings: ClassVar[Mapping[str, object]] = {
        **HoldfastOnPostgres.settings,
        "truth": "PostgreSQL with synchronous_commit on: a job is on disk when enqueue returns",
        "delivery": "at least once; delivery=URL, the ids by way of Redis",
        "server CPU": "of both servers",
    }

    def __init__(self, url: str) -> None:
        super().__init__(url)  # both URLs, for the app
        self.url, _, self._carrier = url.partition(" ")

    async def prepare(self) -> None:
        """Make the schema anew, and empty the database that carries."""
        async with Redis.from_url(self._carrier) as redis:
            await redis.flushdb()
        await super().prepare()


if __name__ == "__main__":
    main(HoldfastOnRedis)
