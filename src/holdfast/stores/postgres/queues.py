"""What is known of queues, on PostgreSQL."""

from collections.abc import Mapping

import msgspec

from holdfast.stores.postgres.role import Role
from holdfast.stores.values import QueueRow, Retention


class PostgresQueues(Role):
    """The verbs of `QueueStore`."""

    async def define_queues(self, retentions: Mapping[str, Retention]) -> None:
        policies = [_policy(retention) for retention in retentions.values()]
        await self.fetch("define_queues", list(retentions), policies)
        await self.fetch_value("keep_partitions")

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        (row,) = await self.fetch("pause_queue", name, actor, reason)
        return QueueRow(*row)

    async def resume_queue(self, name: str) -> QueueRow:
        (row,) = await self.fetch("resume_queue", name)
        return QueueRow(*row)

    async def list_queues(self) -> list[QueueRow]:
        return [QueueRow(*row) for row in await self.fetch("list_queues")]


def _policy(retention: Retention) -> str:
    return msgspec.json.encode(
        {
            "completed": retention.completed_ms,
            "completed_with_errors": retention.completed_with_errors_ms,
            "failed": retention.failed_ms,
            "cancelled": retention.cancelled_ms,
        }
    ).decode()
