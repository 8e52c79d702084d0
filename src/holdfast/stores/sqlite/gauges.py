"""How long the lanes are, on SQLite."""

import sqlite3

from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.jobs import COUNT_CAP
from holdfast.stores.values import LaneGauge


class SqliteGauges:
    """The verbs of `UpkeepStore` that measure."""

    connection: Connection

    async def measure_lanes(self) -> list[LaneGauge]:
        def operation(connection: sqlite3.Connection, now: int) -> list[LaneGauge]:
            statements.change(connection, "measure_lanes", cap=COUNT_CAP, now=now)
            return _read(connection, now)

        return await self.connection.write(operation)

    async def read_gauges(self) -> list[LaneGauge]:
        return await self.connection.read(_read)


def _read(connection: sqlite3.Connection, _now: int) -> list[LaneGauge]:
    return [
        LaneGauge(
            queue,
            priority,
            rows.state(state),
            jobs,
            bool(capped),
            rows.optional_moment(oldest_at),
            rows.moment(measured_at),
        )
        for queue, priority, state, jobs, capped, oldest_at, measured_at in statements.fetch(
            connection, "read_gauges", cap=COUNT_CAP
        )
    ]
