"""A store with views in the seeds' own words, and a connection of somebody who reads them."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted


@pytest.fixture
async def seeded(dsn: str, postgres: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Give an open store, empty, with the views."""
    await postgres.migrator.up(seed_views=True)
    yield postgres
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(f'{postgres.schema}_seed')} CASCADE")
    await connection.close()


@pytest.fixture
async def reader(dsn: str, seeded: PostgresStore) -> AsyncIterator[Any]:
    """Give a connection that sees the views and nothing else."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"SET search_path = {quoted(f'{seeded.schema}_seed')}")
    yield connection
    connection.terminate()
