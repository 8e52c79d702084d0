"""What operators ask, on PostgreSQL."""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg

from holdfast.errors import StoreUnavailable
from holdfast.stores.answers import LISTED, SLOW, WITHIN_S, OperatorAnswers, answers, too_slow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role

_SHARE_OF_DEADLINE = 0.8  # so that it is the server who gives up, and the answer says why


class PostgresAnswers(Role):
    """The verb of `UpkeepStore` that answers operators."""

    async def operator_answers(
        self,
        *,
        org_tag: str = "org_id",
        project_tag: str = "project_id",
        within_s: float = WITHIN_S,
        most: int = LISTED,
        queues: Sequence[str] = (),
    ) -> OperatorAnswers:
        within_s = min(within_s, self.pool.deadline * _SHARE_OF_DEADLINE)
        slow_ms = SLOW // timedelta(milliseconds=1)

        async def run(connection: Connection) -> list[asyncpg.Record]:
            # For this transaction alone, so that it holds behind a pooler too and nothing is left on the session.
            async with connection.transaction(readonly=True):
                await connection.execute(f"SET LOCAL statement_timeout = {round(within_s * 1_000)}")
                asked = (org_tag, project_tag, slow_ms, most, most + 1, list(queues) or None)
                return await connection.fetch(self.queries["operator_answers"], *asked)

        try:
            found = await self.pool.call(run)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.QueryCanceledError):
                raise StoreUnavailable(too_slow(within_s)) from error
            raise
        return answers(((row[0], row[1], row[2], row[3]) for row in found), most)
