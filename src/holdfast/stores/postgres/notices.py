"""Messages to channels that wait to be sent, on PostgreSQL."""

from collections.abc import Sequence

from holdfast.stores.alarms import Notice, NoticeState
from holdfast.stores.postgres.role import Role


class PostgresNotices(Role):
    """The verbs of `NoticeStore`."""

    async def claim_notices(self, channels: Sequence[str], limit: int, lease_ms: int) -> list[Notice]:
        return [Notice(*row) for row in await self.fetch("claim_notices", list(channels), limit, lease_ms)]

    async def end_notice(self, notice: Notice, state: NoticeState, delay_ms: int, error: str | None) -> bool:
        return bool(await self.fetch("end_notice", notice.id, notice.tries, state, delay_ms, error))

    async def next_notice_ms(self, channels: Sequence[str]) -> int | None:
        found = await self.fetch("next_notice", list(channels))
        return int(found[0][0]) if found else None
