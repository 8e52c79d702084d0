"""Dead letters, on PostgreSQL."""

from holdfast.job import NewJob
from holdfast.stores.failures import KEPT_DAYS, LEFT_CAP, DeadCursor, DeadFilter, DeadLetterRow, DeadPage, page_of
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.jobs import insert_values
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import Inserted, Insertion


class PostgresFailures(Role):
    """The verbs of `FailureStore`."""

    async def fold_failures(self, limit: int) -> int:
        return int(await self.fetch_value("fold_failures", limit))

    async def list_dead_letters(self, which: DeadFilter, *, limit: int, after: DeadCursor | None = None) -> DeadPage:
        found = await self.fetch(
            "list_dead_letters",
            list(which.ids),
            list(which.kinds),
            list(which.queues),
            which.error_class,
            which.since,
            None if after is None else after.last_at,
            None if after is None else after.id,
            which.empty,
            LEFT_CAP,
            limit + 1,
        )
        return page_of([DeadLetterRow(*row) for row in found], limit)

    async def insert_replay(self, job: NewJob, origin: int, *, again: bool = False) -> Inserted:
        async def run(connection: Connection) -> Inserted:
            async with connection.transaction():
                found = await connection.fetch(self.queries["insert_jobs"], *insert_values([job], "each", again=again))
                await connection.fetch(self.queries["name_origin"], job.id, origin)
            if not found:
                return Inserted(Insertion.CREATED, job.id)
            _, outcome, job_id, detail = found[0]
            return Inserted(Insertion(outcome), job_id, rows.refusal(detail))

        return await self.pool.call(run)

    async def prune_dead_letters(self, limit: int) -> int:
        gone = await self.fetch("prune_dead_letters", limit, KEPT_DAYS)
        await self.fetch("prune_dead_letter_queues", limit, KEPT_DAYS)
        return len(gone)
