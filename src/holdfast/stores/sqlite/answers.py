"""What operators ask, on SQLite."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

from holdfast.errors import StoreUnavailable
from holdfast.stores.answers import LISTED, SLOW, WITHIN_S, OperatorAnswers, answers, too_slow
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import Connection


class SqliteAnswers:
    """The verb of `UpkeepStore` that answers operators."""

    connection: Connection

    async def operator_answers(
        self,
        *,
        org_tag: str = "org_id",
        project_tag: str = "project_id",
        within_s: float = WITHIN_S,
        most: int = LISTED,
        queues: Sequence[str] = (),
    ) -> OperatorAnswers:
        asked: dict[str, object] = {
            "org_tag": org_tag,
            "project_tag": project_tag,
            "slow_ms": SLOW // timedelta(milliseconds=1),
            "limit": most,
            "most": most + 1,
            "queues": json.dumps(list(queues)) if queues else None,
        }
        try:
            async with asyncio.timeout(within_s):  # the thread that reads gives up soon after, by the store's deadline
                found = await self.connection.read(
                    lambda connection, now: statements.fetch(connection, "operator_answers", now=now, **asked)
                )
        except TimeoutError as error:
            raise StoreUnavailable(too_slow(within_s)) from error
        return answers(((row[0], row[1], row[2], row[3]) for row in found), most)
