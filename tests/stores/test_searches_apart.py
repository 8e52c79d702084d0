"""A search that takes long: other calls of the same store are answered meanwhile."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.wait import PATIENCE_S

SEARCHES = 8


@pytest.mark.guards("search-reader")
async def test_sqlite_reads_beside_searches(sqlite_file: SqliteStore) -> None:
    may_end = threading.Event()
    searches = [
        asyncio.create_task(sqlite_file.connection.search(lambda *_: may_end.wait(PATIENCE_S))) for _ in range(SEARCHES)
    ]
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            assert await sqlite_file.connection.read(lambda *_: not may_end.is_set())
            assert await sqlite_file.connection.write(lambda *_: not may_end.is_set())
    finally:
        may_end.set()
        assert all(await asyncio.gather(*searches))


@pytest.mark.guards("search-room")
async def test_postgresql_keeps_connections_for_other_calls(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=4)
    await store.open()
    may_end, has_two, under_way = asyncio.Event(), asyncio.Event(), []

    async def look(connection: Any) -> int:
        under_way.append(connection)
        if len(under_way) > 1:
            has_two.set()
        await may_end.wait()
        return int(await connection.fetchval("SELECT 1"))

    searches = [asyncio.create_task(store.pool.search(look)) for _ in range(SEARCHES)]
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            await has_two.wait()
            assert await store.count_jobs() == []
    finally:
        may_end.set()
        assert await asyncio.gather(*searches) == [1] * SEARCHES
        await store.close()
