"""What has to be told of finished jobs before they are deleted, on SQLite."""

import sqlite3
from collections.abc import Sequence

from holdfast.events import EventType
from holdfast.job import JobRow
from holdfast.stores.sqlite import publishing, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import RetentionDue


class SqliteRetention:
    """The verbs of `RetentionStore`."""

    connection: Connection

    async def claim_retention(self, queues: Sequence[str], limit: int, lease_ms: int) -> list[RetentionDue]:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection,
                "claim_retention",
                queues=statements.array(queues),
                now=now,
                limit=limit,
                lease_ms=lease_ms,
            )
        )
        return [RetentionDue(*row) for row in found]

    async def kept_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "kept_jobs", ids=statements.array(ids))
        )
        return [rows.job(row) for row in found]

    async def end_retention(self, due: RetentionDue) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            fence = {"id": due.job_id, "what": due.what, "tries": due.tries, "life": due.life}
            if not statements.fetch(connection, "end_retention", **fence):
                return
            job = publishing.look(connection, [due.job_id]).get(due.job_id)
            is_watched = job is not None and job.life == due.life and publishing.is_watched(connection, now)
            if job is not None and is_watched:
                kind = EventType.STALE if due.what == "stale" else EventType.DELETED
                publishing.publish(connection, now, kind, job)
            if due.what == "delete":
                statements.change(connection, "delete_expired", id=due.job_id, life=due.life, now=now)

        await self.connection.write(operation)

    async def postpone_retention(self, due: RetentionDue, delay_ms: int, error: str) -> None:
        await self.connection.write(
            lambda connection, now: statements.change(
                connection,
                "postpone_retention",
                id=due.job_id,
                what=due.what,
                tries=due.tries,
                life=due.life,
                now=now,
                delay_ms=delay_ms,
                error=error,
            )
        )
