"""What is known of queues, on SQLite."""

from collections.abc import Mapping

import msgspec

from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import QueueRow, Retention


class SqliteQueues:
    """The verbs of `QueueStore`."""

    connection: Connection

    async def define_queues(self, retentions: Mapping[str, Retention]) -> None:
        policies = [{"name": name, "retention": _policy(retention)} for name, retention in retentions.items()]
        await self.connection.write(lambda connection, _: statements.change_many(connection, "define_queues", policies))

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "pause_queue", name=name, now=now, actor=actor, reason=reason
            )
        )
        return _queue(found[0])

    async def resume_queue(self, name: str) -> QueueRow:
        found = await self.connection.write(
            lambda connection, _: statements.fetch(connection, "resume_queue", name=name)
        )
        return _queue(found[0])

    async def list_queues(self) -> list[QueueRow]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_queues"))
        return [_queue(row) for row in found]


def _queue(row: statements.Row) -> QueueRow:
    name, paused_at, paused_by, paused_reason = row
    return QueueRow(name, rows.optional_moment(paused_at), paused_by, paused_reason)


def _policy(retention: Retention) -> str:
    return msgspec.json.encode(
        {
            "completed": retention.completed_ms,
            "completed_with_errors": retention.completed_with_errors_ms,
            "failed": retention.failed_ms,
            "cancelled": retention.cancelled_ms,
        }
    ).decode()
