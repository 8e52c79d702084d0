"""A shop whose orders and jobs share a transaction, on the connection of each library in turn."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from holdfast.app import Holdfast
from holdfast.resources.job import Job
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.libraries import LIBRARIES, POSTGRES, SQLITE, AsyncCaller, Caller, OrderTask, SyncCaller

on_postgres = pytest.mark.parametrize("place", POSTGRES, indirect=True)
on_sqlite = pytest.mark.parametrize("place", SQLITE, indirect=True)
on_synchronous = pytest.mark.parametrize(
    "place", [name for name, library in LIBRARIES.items() if issubclass(library, SyncCaller)], indirect=True
)
on_asynchronous = pytest.mark.parametrize(
    "place", [name for name, library in LIBRARIES.items() if issubclass(library, AsyncCaller)], indirect=True
)


@dataclass
class Place:
    """Where a shop keeps its orders and jobs."""

    library: str
    address: str  # what the library connects to
    schema: str | None

    @property
    def orders(self) -> str:
        return "orders" if self.schema is None else f"{quoted(self.schema)}.orders"

    @property
    def jobs(self) -> str:
        return "holdfast_jobs" if self.schema is None else f"{quoted(self.schema)}.jobs"

    def store(self) -> PostgresStore | SqliteStore:
        return SqliteStore(self.address) if self.schema is None else PostgresStore(self.address, schema=self.schema)


@dataclass
class Shop:
    """An open app, and callers with connections of their own."""

    place: Place
    app: Holdfast
    ship: OrderTask
    caller: Caller

    async def order(self, n: int) -> None:
        """Write a row of the shop's own."""
        await self.caller.value(f"INSERT INTO {self.place.orders} (n) VALUES ({n})")

    async def orders(self) -> list[int]:
        """Read the rows that are committed, on another connection."""
        numbers = "string_agg(CAST(n AS text), ',')" if self.place.schema else "group_concat(n)"
        async with self.another_caller() as other:
            found: str | None = await other.value(f"SELECT {numbers} FROM {self.place.orders}")
        return sorted(int(n) for n in found.split(",")) if found else []

    async def jobs(self) -> list[Job]:
        """Read the jobs that are committed."""
        return [job async for job in self.app.jobs.iterate()]

    async def shipped(self) -> list[int]:
        """Read which orders have a committed job."""
        return sorted(job.args["n"] for job in await self.jobs())

    @asynccontextmanager
    async def another_caller(self) -> AsyncIterator[Caller]:
        """Open one more connection of the same library."""
        caller = LIBRARIES[self.place.library](self.app, self.ship)
        await caller.open(self.place.address)
        try:
            yield caller
        finally:
            await caller.close()


def make_app(url: str = "sqlite://", **settings: Any) -> tuple[Holdfast, OrderTask]:
    """Make an app with one task."""
    app = Holdfast(url, **settings)

    @app.task
    async def ship(n: int) -> int:
        return n

    return app, ship


@asynccontextmanager
async def opened_shop(place: Place, **settings: Any) -> AsyncIterator[Shop]:
    """Open an app and a caller on one database."""
    app, ship = make_app(**settings)
    async with app.open_on(place.store()):
        caller = LIBRARIES[place.library](app, ship)
        await caller.open(place.address)
        try:
            await caller.begin()
            await caller.value(f"CREATE TABLE {place.orders} (n integer PRIMARY KEY)")
            await caller.commit()
            yield Shop(place, app, ship, caller)
        finally:
            await caller.close()


@pytest.fixture(scope="session")
def shared_schema(dsn: str) -> Iterator[str]:
    """Give one migrated schema for all tests of this folder: making one takes longer than most of them."""
    name = f"hf_{uuid.uuid4().hex[:12]}"
    asyncio.run(PostgresStore(dsn, schema=name).migrator.up())
    yield name
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@pytest.fixture
def emptied_schema(dsn: str, shared_schema: str) -> str:
    """Give the shared schema without what the tests before left in it."""
    tables = ("jobs", "history", "attempts", "idempotency")
    with psycopg.connect(dsn) as connection:
        connection.execute("; ".join(f"DELETE FROM {shared_schema}.{table}" for table in tables).encode())
        connection.execute(f"DROP TABLE IF EXISTS {shared_schema}.orders".encode())
    return shared_schema


@pytest.fixture
async def odd_schema(dsn: str) -> AsyncIterator[str]:
    """Give a migrated schema with a name that every library spells differently."""
    name = f'Größe "mit": ::text ?{{x}} a@jobs .{uuid.uuid4().hex[:8]}'
    await PostgresStore(dsn, schema=name).migrator.up()
    yield name
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()


@pytest.fixture(params=LIBRARIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Give each library a database of its own."""
    library: str = request.param
    if library in POSTGRES:
        return Place(library, request.getfixturevalue("dsn"), request.getfixturevalue("emptied_schema"))
    return Place(library, str(tmp_path / "shop.db"), None)


@pytest.fixture
async def shop(place: Place) -> AsyncIterator[Shop]:
    """Give a shop on each library in turn, or on those that a test chooses with the marks above."""
    async with opened_shop(place) as opened:
        yield opened
