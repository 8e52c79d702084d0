"""SQL past the verbs, as another program or an operator might write it."""

import sqlite3
from typing import Any

import asyncpg
import msgspec

from holdfast.stores.alarms import Alarm
from holdfast.stores.bounds import BOUNDS
from holdfast.stores.postgres.alarms import alarm_columns
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store

TABLES = tuple(table for table in BOUNDS if table != "meta")  # which every store has from the start


async def execute(store: Store, sql: str) -> None:
    """Run one statement, in which tables are spelled `holdfast.jobs`, in a commit of its own."""
    if isinstance(store, PostgresStore):
        await store.fetch_sql(sql)
        return
    assert isinstance(store, SqliteStore)
    statement = sql.replace("holdfast.", "holdfast_")

    def run(database: sqlite3.Connection, _now: int) -> None:
        database.execute(statement)

    await store.connection.write(run)


async def column(store: Store, sql: str) -> list[Any]:
    """Read the first value of every row, with tables spelled `holdfast.jobs`."""
    if isinstance(store, PostgresStore):
        return [row[0] for row in await store.fetch_sql(sql)]
    assert isinstance(store, SqliteStore)
    statement = sql.replace("holdfast.", "holdfast_")
    return await store.connection.read(lambda database, _: [row[0] for row in database.execute(statement)])


async def raise_alarm(store: Store, alarm: Alarm) -> None:
    """Put an alarm into the inbox, as what notices that something is wrong does."""
    if isinstance(store, PostgresStore):
        await store.fetch("raise_alarm", *alarm_columns(alarm))
        return
    assert isinstance(store, SqliteStore)
    asked = msgspec.structs.asdict(alarm)
    await store.connection.write(lambda database, now: statements.change(database, "raise_alarm", now=now, **asked))


async def clear(store: Store) -> None:
    """Leave nothing in the store."""
    if isinstance(store, PostgresStore):
        # One round trip: parts of a WITH are all carried out.
        parts = [f"gone_{table} AS (DELETE FROM holdfast.{table})" for table in TABLES]
        await store.fetch_sql(f"WITH {', '.join(parts)} SELECT")
        return
    for table in TABLES:
        await execute(store, f"DELETE FROM holdfast.{table}")


async def drop_schema(dsn: str, name: str) -> None:
    """Remove a schema of PostgreSQL."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()
