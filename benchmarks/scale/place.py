"""Where the jobs of one measurement live: a schema of a PostgreSQL server, or a SQLite file."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import asyncpg

from benchmarks.contestants.contestant import LEDGER, URL
from holdfast import Holdfast, Limit
from holdfast.stores import make_store
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema, quoted
from holdfast.stores.sqlite.store import SqliteStore

AnyStore = PostgresStore | SqliteStore
SCHEMA = "BENCH_SCHEMA"  # beside the URL, for the programs that a run starts


@dataclass(frozen=True)
class Place:
    """The address of a store."""

    url: str
    schema: str = "holdfast"

    @property
    def is_postgres(self) -> bool:
        """Whether it is a schema of a server."""
        return not self.url.startswith("sqlite:")

    def app(self, *, pool_size: int = 5, deadline: str = "10s", limits: Iterable[Limit] = ()) -> Holdfast:
        """Make an app on this store."""
        return Holdfast(self.url, schema=self.schema, pool_size=pool_size, deadline=deadline, limits=limits)

    def store(self) -> AnyStore:
        """Make the store itself, not open yet, with one connection and patience."""
        return make_store(self.app(pool_size=1, deadline="60s").config)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AnyStore]:
        """Open the store for the time of a block."""
        store = self.store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def seen_from(self, url: str) -> "Place":
        """Give the same place by another way to the server."""
        return replace(self, url=url)

    def environment(self, ledger: Path) -> dict[str, str]:
        """Give the environment of a program that works here."""
        return {**os.environ, URL: self.url, SCHEMA: self.schema, LEDGER: str(ledger)}


def place_of_environment() -> Place:
    """Read where the program that started this one wants it to work."""
    return Place(os.environ[URL], os.environ[SCHEMA])


@contextmanager
def postgres_place(dsn: str) -> Iterator[Place]:
    """Make a schema, and drop it with all that is in it."""
    place = Place(dsn, f"hf_scale_{uuid.uuid4().hex[:8]}")
    asyncio.run(place.store().migrator.up())
    try:
        yield place
    finally:
        asyncio.run(_drop(place))


@contextmanager
def sqlite_place(folder: Path) -> Iterator[Place]:
    """Make a file in a folder of its own, and remove it with all that workers put beside it."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        place = Place(f"sqlite:///{own}/jobs.db")
        asyncio.run(place.store().migrator.up())
        yield place


@contextmanager
def store_place(store: str, dsn: str, folder: Path) -> Iterator[Place]:
    """Make a place on either store."""
    with postgres_place(dsn) if store == "postgres" else sqlite_place(folder) as place:
        yield place


async def _drop(place: Place) -> None:
    async with connected(place) as connection:
        await connection.execute(f"DROP SCHEMA {quoted(place.schema)} CASCADE")


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Connection]:
    """Connect to the server past the store."""
    connection = await asyncpg.connect(place.url)
    try:
        yield connection
    finally:
        await connection.close()


async def execute(place: Place, *statements: str) -> None:
    """Run statements of one's own, each in a commit of its own; `holdfast.` in them means the schema."""
    async with connected(place) as connection:
        for statement in statements:
            await connection.execute(in_schema(statement, place.schema))


async def fetch(place: Place, sql: str, *args: object) -> Sequence[asyncpg.Record]:
    """Read something past the store."""
    async with connected(place) as connection:
        found: list[asyncpg.Record] = await connection.fetch(in_schema(sql, place.schema), *args)
        return found
