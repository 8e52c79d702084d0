"""What every role of the store shares: named queries in the chosen schema, run through the pool."""

import functools
from collections.abc import Mapping
from typing import Any

import asyncpg

from holdfast.errors import DataRefused
from holdfast.stores.postgres.connection import Pool
from holdfast.stores.sql import in_schema, load_queries

QUERIES = load_queries("holdfast.stores.postgres")
_SCHEMAS = 8  # whose queries are kept; a process has one or two


@functools.lru_cache(_SCHEMAS)
def _spelled(schema: str) -> Mapping[str, str]:
    """Spell every query in a schema, once for all stores there."""
    return {name: in_schema(sql, schema) for name, sql in QUERIES.items()}


class Role:
    """A part of the store."""

    pool: Pool
    schema: str
    queries: dict[str, str]

    def use(self, pool: Pool, schema: str) -> None:
        """Take the pool and spell the queries in the schema."""
        self.pool = pool
        self.schema = schema
        self.queries = dict(_spelled(schema))

    async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
        """Run a named query."""
        try:
            return await self.pool.fetch(self.queries[query], *args)
        except DataRefused as error:
            if not lacks_partition(error):
                raise
            # The weeks ahead were not made in time. The call was rolled back, so it may be made again.
            await self.pool.fetch(self.queries["keep_partitions"])
            return await self.pool.fetch(self.queries[query], *args)

    async def fetch_value(self, query: str, *args: object) -> Any:
        """Run a named query and read its first value."""
        return (await self.fetch(query, *args))[0][0]

    async def fetch_sql(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Run a query that was put together from fixed parts."""
        return await self.pool.fetch(in_schema(sql, self.schema), *args)


def lacks_partition(error: DataRefused) -> bool:
    """Whether a week of history is missing: nothing is wrong with the value."""
    return isinstance(error.__cause__, asyncpg.CheckViolationError) and "no partition" in str(error)
