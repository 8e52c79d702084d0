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
from tests.support.schemas import FEW_BYTES

TABLES = tuple(table for table in BOUNDS if table != "meta")  # which every store has from the start
_GROWN = """
SELECT relname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = $1 AND relkind = 'r' AND pg_relation_size(pg_class.oid) > $2
  AND (relname = ANY($3) OR relname ~ '^history_w[0-9]{8}$')
"""
_WEEKS_AHEAD = """
SELECT relname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = $1 AND relkind = 'r' AND relname ~ '^history_w[0-9]{8}$'
  AND to_date(right(relname, 8), 'YYYYMMDD') > now() + interval '9 weeks'
"""


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
        # A clock that went far ahead has made a partition of history for each week, and every query goes through them.
        await _each(store, "DROP TABLE {}", [row[0] for row in await store.fetch_sql(_WEEKS_AHEAD, store.schema)])
        # Deleted rows stay in their pages, and every test after that would read them.
        grown = await store.fetch_sql(_GROWN, store.schema, FEW_BYTES, TABLES)
        await _each(store, "TRUNCATE {} CASCADE", [row[0] for row in grown])
        # One round trip: parts of a WITH are all carried out.
        parts = [f"gone_{table} AS (DELETE FROM holdfast.{table})" for table in TABLES]
        await store.fetch_sql(f"WITH {', '.join(parts)} SELECT")
        return
    for table in TABLES:
        await execute(store, f"DELETE FROM holdfast.{table}")


async def _each(store: PostgresStore, statement: str, tables: list[str]) -> None:
    """Run one statement on several tables at once."""
    if tables:
        await store.fetch_sql(statement.format(", ".join(f"holdfast.{table}" for table in tables)))


async def drop_schema(dsn: str, name: str) -> None:
    """Remove a schema of PostgreSQL."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()
