"""What a delivery that carries ids asks, on PostgreSQL."""

from collections.abc import Sequence

from holdfast.stores.postgres.jobs import COUNT_CAP
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import Ready


class PostgresAnnouncing(Role):
    """The verbs of `AnnounceStore`."""

    async def mark_announced(self, ids: Sequence[int]) -> None:
        await self.fetch("mark_announced", list(ids))

    async def ready_lanes(self) -> list[tuple[str, int, int]]:
        return [(row[0], row[1], row[2]) for row in await self.fetch("ready_lanes", COUNT_CAP)]

    async def unannounced_jobs(self, queue: str, priority: int, age_ms: int, limit: int) -> list[Ready]:
        return [Ready(*row) for row in await self.fetch("unannounced_jobs", queue, priority, age_ms, limit)]
