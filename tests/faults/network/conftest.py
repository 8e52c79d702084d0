"""A store behind a proxy."""

from collections.abc import AsyncIterator

import pytest

from holdfast.stores.postgres.store import PostgresStore
from tests.support.proxy import Proxy, proxied


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Give a proxy in front of the server."""
    async with proxied(dsn) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store that reaches the server through the proxy; its calls have a deadline of one second, once it is open.

    Whoever does not wait for it to pass takes a longer one: a busy machine needs more than a second now and then.
    """
    store = PostgresStore(proxy.dsn, schema=schema)
    await store.open()
    store.pool.deadline = 1.0
    yield store
    proxy.heal()
    await store.close()
