"""Folding old roll-ups, on SQLite."""

import sqlite3
from collections import Counter
from itertools import groupby
from typing import NamedTuple

import msgspec

from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import Connection

_MINUTE_S, _HALF_S, _HOUR_S, _DAY_S = 60, 1_800, 3_600, 86_400


class _Step(NamedTuple):
    """Rows of one span become rows of a wider one when they are so old."""

    span_s: int
    wider_s: int
    age_s: int


_STEPS = (
    _Step(1, _MINUTE_S, 5 * _MINUTE_S),
    _Step(_MINUTE_S, _HALF_S, 2 * _HOUR_S),
    _Step(_HALF_S, _HOUR_S, 2 * _DAY_S),
    _Step(_HOUR_S, _DAY_S, 90 * _DAY_S),
)


class SqliteFolding:
    """The verb of `UpkeepStore` that folds."""

    connection: Connection

    async def fold_rollups(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            made = 0
            for step in _STEPS:
                made += _fold(connection, now, step, limit - made)
            return made

        return await self.connection.write(operation)


def _fold(connection: sqlite3.Connection, now: int, step: _Step, limit: int) -> int:
    wider_ms = step.wider_s * 1_000
    until = (now - step.age_s * 1_000) // wider_ms * wider_ms
    found = statements.fetch(
        connection, "fold_rollups", span_s=step.span_s, wider_s=step.wider_s, until=until, limit=limit
    )
    made = [
        _merged(key, list(rows)) | {"span_s": step.wider_s}
        for key, rows in groupby(found, key=lambda row: row[1:5])  # in the order of the query
    ]
    statements.change(connection, "delete_rollups", ids=statements.array(row[0] for row in found))
    statements.change_many(connection, "add_rollup", made)
    return len(made)


def _merged(key: tuple[object, ...], rows: list[statements.Row]) -> dict[str, object]:
    """Add up the rows of one group, bucket by bucket."""
    start, queue, kind, state = key
    waits: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for *_, wait, run in rows:
        waits.update(msgspec.json.decode(wait, type=dict[str, int]))
        runs.update(msgspec.json.decode(run, type=dict[str, int]))
    return {
        "minute": start,
        "queue": queue,
        "kind": kind,
        "state": state,
        "jobs": sum(row[5] for row in rows),
        "wait": msgspec.json.encode(waits).decode(),
        "run": msgspec.json.encode(runs).decode(),
    }
