"""A table of the user's own beside the jobs: what a handler writes in its transaction."""

from typing import Any

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from tests.support import raw


class Effects:
    """Numbers that handlers have written."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, PostgresStore | SqliteStore)
        self._store = store

    async def make(self) -> None:
        """Make the table, or empty that of another test."""
        await raw.execute(self._store, "CREATE TABLE IF NOT EXISTS holdfast.effects (number bigint PRIMARY KEY)")
        await raw.execute(self._store, "DELETE FROM holdfast.effects")

    async def write(self, connection: Any, number: int) -> None:
        """Write a number on the connection of a transaction."""
        if isinstance(self._store, PostgresStore):
            sql = in_schema("INSERT INTO holdfast.effects VALUES ($1)", self._store.schema)
            await connection.execute(sql, number)
        else:
            connection.execute("INSERT INTO holdfast_effects VALUES (?)", (number,))

    async def numbers(self) -> list[int]:
        """Read what was committed."""
        sql = "SELECT number FROM {} ORDER BY number"
        if isinstance(self._store, PostgresStore):
            return [row[0] for row in await self._store.fetch_sql(sql.format("holdfast.effects"))]
        found = await self._store.connection.read(
            lambda database, _: database.execute(sql.format("holdfast_effects")).fetchall()
        )
        return [row[0] for row in found]
