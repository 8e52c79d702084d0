"""What the tests of the stores' meaning share."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.clock import Clock
from tests.support.schemas import to_end_others
from tests.support.sessions import one_loop

__all__ = ["one_loop"]


@pytest.fixture(scope="session")
def shared_schema(dsn: str) -> Iterator[str]:
    """Give one migrated schema to all tests of this folder, because making one takes longer than a test."""
    name = f"hf_shared_{uuid.uuid4().hex[:12]}"
    with asyncio.Runner() as runner:
        runner.run(PostgresStore(dsn, schema=name).migrator.up())
    yield name
    with asyncio.Runner() as runner:
        runner.run(raw.drop_schema(dsn, name))


@pytest.fixture
async def postgres(dsn: str, shared_schema: str) -> AsyncIterator[PostgresStore]:
    """Give an open store on PostgreSQL, empty, its clock running."""
    store = PostgresStore(dsn, schema=shared_schema)
    await store.open()
    await store.fetch_sql(to_end_others(shared_schema))  # which a test may have left in the middle of something
    await store.set_time(None)
    await raw.clear(store)
    yield store
    await store.close()


@pytest.fixture
async def clock(store: Store) -> Clock:
    """Stop the store's clock, and give it to the test."""
    stopped = Clock(store)
    await stopped.stop()
    return stopped
