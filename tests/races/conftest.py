"""Two stores that meet."""

from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from tests.races.rivals import Rivals
from tests.support.connections import connected
from tests.support.moments import recorded
from tests.support.sessions import one_loop

__all__ = ["one_loop"]


@pytest.fixture(autouse=True)
def no_deadlock() -> Iterator[None]:
    """Fail where calls waited for each other in a ring: the pool tries again, and no other assertion would see it."""
    with recorded() as moments:
        yield
    assert moments.count("deadlocked", sqlstate="40P01") == 0


@pytest.fixture
async def rivals(dsn: str, schema: str) -> AsyncIterator[Rivals]:
    """Give two open stores on one schema."""
    one, two = (PostgresStore(dsn, schema=schema, deadline=30) for _ in range(2))
    await one.open()
    await two.open()
    async with connected(dsn) as watcher, connected(dsn) as blocker:
        yield Rivals(one, two, watcher, blocker)
    await one.close()
    await two.close()


@pytest.fixture
async def caller(dsn: str) -> AsyncIterator[Connection]:
    """Give a connection of somebody who uses the database beside Holdfast."""
    async with connected(dsn) as connection:
        yield connection
