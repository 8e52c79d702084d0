"""Webhook messages that wait to be posted, on SQLite."""

import sqlite3

import msgspec

from holdfast.events import EventType
from holdfast.stores.deliveries import EndpointRow, Message
from holdfast.stores.sqlite import publishing, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.publishing import Told

_TOLD = {"delivered": EventType.WEBHOOK_DELIVERED, "failed": EventType.WEBHOOK_FAILED}


class SqliteDeliveries:
    """The verbs of `DeliveryStore`."""

    connection: Connection

    async def claim_deliveries(self, limit: int, lease_ms: int) -> list[Message]:
        # A look first: nobody's turn to write is taken while there is nothing to take.
        due_ms = await self.next_delivery_ms()
        if due_ms is None or due_ms > 0:
            return []
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "claim_deliveries", now=now, limit=limit, lease_ms=lease_ms
            )
        )
        return [_message(row) for row in found]

    async def end_delivery(self, message: Message, state: str, delay_ms: int, entry: str) -> bool:
        def operation(connection: sqlite3.Connection, now: int) -> bool:
            ended = statements.fetch(
                connection,
                "end_delivery",
                id=message.id,
                tries=message.tries,
                state=state,
                now=now,
                delay_ms=delay_ms,
                entry=entry,
            )
            if ended and state in _TOLD and publishing.is_watched(connection, now):
                job_id, task, queue, status, life, attempt, endpoint, tries = ended[0]
                job = Told(job_id, task, queue, status, life, 0, attempt)
                publishing.publish(connection, now, _TOLD[state], job, {"url": endpoint, "tries": tries})
            return bool(ended)

        return await self.connection.write(operation)

    async def postpone_delivery(self, message: Message, delay_ms: int) -> None:
        await self.connection.write(
            lambda connection, now: statements.change(
                connection, "postpone_delivery", id=message.id, tries=message.tries, now=now, delay_ms=delay_ms
            )
        )

    async def next_delivery_ms(self) -> int | None:
        due: int | None = await self.connection.read(
            lambda connection, now: statements.fetch_value(connection, "next_delivery", now=now)
        )
        return due

    async def disable_endpoint(self, endpoint: str, reason: str) -> None:
        await self.connection.write(
            lambda connection, now: statements.change(
                connection, "disable_endpoint", endpoint=endpoint, now=now, reason=reason
            )
        )

    async def enable_endpoint(self, endpoint: str) -> bool:
        changed = await self.connection.write(
            lambda connection, _: statements.change(connection, "enable_endpoint", endpoint=endpoint)
        )
        return bool(changed)

    async def list_endpoints(self) -> list[EndpointRow]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_endpoints"))
        return [
            EndpointRow(endpoint, rows.optional_moment(disabled_at), reason, pending, delivered, failed)
            for endpoint, disabled_at, reason, pending, delivered, failed in found
        ]

    async def prune_deliveries(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, "prune_deliveries", now=now, limit=limit)
        )


def _message(row: statements.Row) -> Message:
    message = Message(*row)
    return msgspec.structs.replace(message, at=rows.moment(row[5]), result_omitted=bool(message.result_omitted))
