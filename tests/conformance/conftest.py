"""What the tests of the stores' meaning share."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.stores.postgres.links import Plain
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from tests.support import raw
from tests.support import sessions as lasting
from tests.support.clock import Clock


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """Give the event loop of all tests of this folder: a connection cannot go from one loop to another."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(name="_function_scoped_runner")  # as pytest-asyncio calls the one of a test and of its fixtures
def _one_loop(runner: asyncio.Runner) -> Iterator[asyncio.Runner]:
    yield runner
    runner.run(lasting.end_tasks())


@pytest.fixture(scope="session")
def shared_schema(dsn: str, runner: asyncio.Runner) -> Iterator[str]:
    """Give one migrated schema to all tests of this folder, because making one takes longer than a test."""
    name = f"hf_shared_{uuid.uuid4().hex[:12]}"
    runner.run(lasting.prepare(dsn, name))
    yield name
    runner.run(raw.drop_schema(dsn, name))


@pytest.fixture(scope="session")
def lasting_connections(shared_schema: str, runner: asyncio.Runner) -> Iterator[list[Plain]]:
    """Keep connections between the tests, until the schema goes."""
    connections: list[Plain] = []
    yield connections
    runner.run(lasting.part_with(connections))


@pytest.fixture
async def postgres(dsn: str, shared_schema: str, lasting_connections: list[Plain]) -> AsyncIterator[PostgresStore]:
    """Give an open store on PostgreSQL, empty, its clock running."""
    store = lasting.LastingStore(dsn, shared_schema, lasting_connections)
    await store.open()
    await store.set_time(None)
    await lasting.clear(store)
    yield store
    await store.close()


@pytest.fixture
async def clock(store: Store) -> Clock:
    """Stop the store's clock, and give it to the test."""
    stopped = Clock(store)
    await stopped.stop()
    return stopped
