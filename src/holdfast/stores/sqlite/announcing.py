"""What a delivery that carries ids asks, on SQLite."""

from collections.abc import Sequence

from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.jobs import COUNT_CAP
from holdfast.stores.values import Ready


class SqliteAnnouncing:
    """The verbs of `AnnounceStore`."""

    connection: Connection

    async def mark_announced(self, ids: Sequence[int]) -> None:
        asked = statements.array(ids)
        await self.connection.write(
            lambda connection, now: statements.change(connection, "mark_announced", ids=asked, now=now)
        )

    async def ready_lanes(self) -> list[tuple[str, int, int]]:
        return await self.connection.read(
            lambda connection, _: statements.fetch(connection, "ready_lanes", cap=COUNT_CAP)
        )

    async def unannounced_jobs(self, queue: str, priority: int, age_ms: int, limit: int) -> list[Ready]:
        asked = {"queue": queue, "priority": priority, "age_ms": age_ms, "limit": limit}
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "unannounced_jobs", now=now, **asked)
        )
        return [Ready(*row) for row in found]
