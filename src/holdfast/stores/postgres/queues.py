"""What is known of queues, on PostgreSQL."""

from collections.abc import Mapping

from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import QueueRow, QueueTerms


class PostgresQueues(Role):
    """The verbs of `QueueStore`."""

    async def define_queues(self, terms: Mapping[str, QueueTerms]) -> None:
        await self.fetch(
            "define_queues",
            list(terms),
            [rows.json_text(defined.kept_ms) for defined in terms.values()],
            [rows.json_text(defined.stale_ms) for defined in terms.values()],
            [defined.tells for defined in terms.values()],
            [defined.webhook for defined in terms.values()],
            [defined.escalation for defined in terms.values()],
        )
        await self.fetch_value("keep_partitions")

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        (row,) = await self.fetch("pause_queue", name, actor, reason)
        return QueueRow(*row)

    async def resume_queue(self, name: str) -> QueueRow:
        (row,) = await self.fetch("resume_queue", name)
        return QueueRow(*row)

    async def list_queues(self) -> list[QueueRow]:
        return [QueueRow(*row) for row in await self.fetch("list_queues")]
