"""What has to be told of finished jobs before they are deleted, on PostgreSQL."""

from collections.abc import Sequence

from holdfast.job import JobRow
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import RetentionDue


class PostgresRetention(Role):
    """The verbs of `RetentionStore`."""

    async def claim_retention(self, queues: Sequence[str], limit: int, lease_ms: int) -> list[RetentionDue]:
        return [RetentionDue(*row) for row in await self.fetch("claim_retention", limit, lease_ms, list(queues))]

    async def kept_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return [rows.job(row[: rows.ALL_COLUMNS]) for row in await self.fetch("kept_jobs", ids)]

    async def end_retention(self, due: RetentionDue) -> None:
        await self.fetch("end_retention", due.job_id, due.what, due.tries, due.life)

    async def postpone_retention(self, due: RetentionDue, delay_ms: int, error: str) -> None:
        await self.fetch("postpone_retention", due.job_id, due.what, due.tries, delay_ms, error, due.life)
