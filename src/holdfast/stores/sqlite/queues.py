"""What is known of queues, on SQLite."""

from collections.abc import Mapping

import msgspec

from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import QueueRow, QueueTerms


class SqliteQueues:
    """The verbs of `QueueStore`."""

    connection: Connection

    async def define_queues(self, terms: Mapping[str, QueueTerms]) -> None:
        definitions = [
            {
                "name": name,
                "retention": msgspec.json.encode(defined.kept_ms).decode(),
                "stale": msgspec.json.encode(defined.stale_ms).decode(),
                "tells": defined.tells,
                "webhook": defined.webhook,
                "escalation": defined.escalation,
            }
            for name, defined in terms.items()
        ]
        await self.connection.write(
            lambda connection, _: statements.change_many(connection, "define_queues", definitions)
        )

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "pause_queue", name=name, now=now, actor=actor, reason=reason
            )
        )
        return _queue(found[0])

    async def resume_queue(self, name: str) -> QueueRow:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(connection, "resume_queue", name=name, now=now)
        )
        return _queue(found[0])

    async def list_queues(self) -> list[QueueRow]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_queues"))
        return [_queue(row) for row in found]


def _queue(row: statements.Row) -> QueueRow:
    name, paused_at, paused_by, paused_reason = row
    return QueueRow(name, rows.optional_moment(paused_at), paused_by, paused_reason)
