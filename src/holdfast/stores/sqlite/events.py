"""What those who watch hear of, on SQLite."""

import sqlite3
from collections.abc import Sequence

from holdfast.events import EventRow, EventType
from holdfast.journal import decoded
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.values import Horizon


class SqliteEvents:
    """The verbs of `EventStore`."""

    connection: Connection

    async def watch(self, watcher: str, lasts_ms: int) -> None:
        await self.connection.write(
            lambda connection, now: statements.change(connection, "watch", id=watcher, now=now, lasts_ms=lasts_ms)
        )

    async def unwatch(self, watcher: str) -> None:
        await self.connection.write(lambda connection, _: statements.change(connection, "unwatch", id=watcher))

    async def first_event(self, patience_s: float) -> Horizon:
        del patience_s  # there is one writer: what began before the watch had ended before it was committed
        return Horizon(
            int(await self.connection.read(lambda connection, _: statements.fetch_value(connection, "first_event")))
        )

    async def still_writing(self, writing: Sequence[str]) -> tuple[str, ...]:
        return tuple(writing)[:0]  # there never was one, for the same reason

    async def read_events(self, after: int, missing: Sequence[int], limit: int) -> list[EventRow]:
        del missing  # numbers become visible in their order, for the same reason
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "read_events", after=after, limit=limit)
        )
        return [_event(row) for row in found]

    async def prune_events(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            return statements.change(connection, "prune_events", now=now, limit=limit)

        return await self.connection.write(operation)


def _event(row: statements.Row) -> EventRow:
    seq, at, name, job_id, kind, queue, state, run, claim, attempt, data = row
    return EventRow(
        seq=seq,
        at=rows.moment(at),
        type=EventType(name),
        job_id=job_id,
        kind=kind,
        queue=queue,
        state=None if state is None else rows.state(state),
        run=run,
        claim=claim,
        attempt=attempt,
        data=decoded(data) or {},
    )
