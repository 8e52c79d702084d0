"""Redis for every test: Valkey from a wheel, or for tests that break nothing HOLDFAST_TEST_REDIS_URL."""

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.delivery.in_store import InStore
from holdfast.delivery.redis import ByRedis
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.sqlite.store import SqliteStore
from tests.redis.prompt import NO_SWEEP, SELDOM
from tests.support.place import place, postgres_place, sqlite_place
from tests.support.sessions import one_loop
from tests.support.valkey import Valkey
from tests.support.workers import MakeApp
from tests.worker.conftest import empty_schema, make_postgres, make_shared_app, make_sqlite_file, shared_schema

__all__ = [
    "empty_schema",
    "make_postgres",
    "make_shared_app",
    "make_sqlite_file",
    "one_loop",
    "place",
    "postgres_place",
    "shared_schema",
    "sqlite_place",
]


@dataclass
class Marked:
    """Remembers what the store would be told."""

    batches: list[list[int]] = field(default_factory=list)

    async def __call__(self, ids: Sequence[int]) -> None:
        self.batches.append(list(ids))

    @property
    def ids(self) -> list[int]:
        return [identifier for batch in self.batches for identifier in batch]


Deliver = Callable[[RedisDelivery], ByRedis]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Give the address of a server that lives as long as this process."""
    given = os.environ.get("HOLDFAST_TEST_REDIS_URL")
    if given:
        yield given
        return
    server = Valkey()
    server.start()
    yield server.url
    server.close()


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """Give a server of this test's own."""
    server = Valkey()
    server.start()
    yield server
    server.close()


@pytest.fixture
def other_valkey() -> Iterator[Valkey]:
    """Give one more."""
    server = Valkey()
    server.start()
    yield server
    server.close()


@pytest.fixture
def prefix() -> str:
    """Give a prefix that nobody else uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def two_shards(redis_url: str, prefix: str) -> RedisDelivery:
    """Give the usual two bands."""
    return RedisDelivery([Shard("high", redis_url, (0, 4), 4), Shard("low", redis_url, (5, 10), 1)], prefix)


@pytest.fixture
def marked() -> Marked:
    """Give what is marked as announced."""
    return Marked()


@pytest.fixture
async def deliver(sqlite_memory: SqliteStore, marked: Marked) -> AsyncIterator[Deliver]:
    """Give what makes deliveries, which end with the test."""
    made = []

    def make(settings: RedisDelivery) -> ByRedis:
        delivery = ByRedis(settings, InStore(sqlite_memory), marked)
        made.append(delivery)
        return delivery

    yield make
    for delivery in made:
        await delivery.close()


@pytest.fixture
def by_redis(deliver: Deliver, two_shards: RedisDelivery) -> ByRedis:
    """Give a delivery with the usual two bands."""
    return deliver(two_shards)


@pytest.fixture
def delivery(valkey: Valkey, other_valkey: Valkey) -> RedisDelivery:
    """Give two servers of this test's own."""
    return RedisDelivery([Shard("high", valkey.url, (0, 4), 4), Shard("low", other_valkey.url, (5, 10))])


@pytest.fixture
def make(make_shared_app: MakeApp, delivery: RedisDelivery) -> MakeApp:
    """Make apps on each store, with delivery by Redis."""

    def made(**settings: Any) -> Holdfast:
        given: dict[str, Any] = {"delivery": delivery, "worker": SELDOM, "services": NO_SWEEP}
        return make_shared_app(**(given | settings))

    return made


@pytest.fixture
async def app(make: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn."""
    async with make() as app:
        yield app
