"""Messages to channels that wait to be sent, on SQLite."""

from collections.abc import Sequence

from holdfast.stores.alarms import Notice, NoticeState
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import Connection


class SqliteNotices:
    """The verbs of `NoticeStore`."""

    connection: Connection

    async def claim_notices(self, channels: Sequence[str], limit: int, lease_ms: int) -> list[Notice]:
        # A look first: nobody's turn to write is taken while there is nothing to take.
        due_ms = await self.next_notice_ms(channels)
        if due_ms is None or due_ms > 0:
            return []
        named = statements.array(channels)
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "claim_notices", channels=named, now=now, limit=limit, lease_ms=lease_ms
            )
        )
        return [Notice(*row) for row in found]

    async def end_notice(self, notice: Notice, state: NoticeState, delay_ms: int, error: str | None) -> bool:
        asked = {"id": notice.id, "tries": notice.tries, "state": state, "delay_ms": delay_ms, "error": error}
        ended = await self.connection.write(
            lambda connection, now: statements.fetch(connection, "end_notice", now=now, **asked)
        )
        return bool(ended)

    async def next_notice_ms(self, channels: Sequence[str]) -> int | None:
        named = statements.array(channels)
        due: int | None = await self.connection.read(
            lambda connection, now: statements.fetch_value(connection, "next_notice", now=now, channels=named)
        )
        return due
