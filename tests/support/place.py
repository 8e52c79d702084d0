"""A place for chaos: a store that other processes can reach, its ledger, and worker groups that end with the test."""

import os
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from holdfast.job import NewJob
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.disks import disk
from tests.support.groups import Group
from tests.support.oracle import Note, read_ledger
from tests.support.wait import until

__all__ = ["disk"]


class Place:
    """One store, the environment that lets worker processes use it, and what they leave behind."""

    def __init__(self, url: str, schema: str, folder: Path, store: PostgresStore | SqliteStore) -> None:
        self.url = url
        self.schema = schema
        self.folder = folder
        self.store = store
        self.ledger = folder / "ledger"
        self.env = {"CHAOS_URL": url, "CHAOS_SCHEMA": schema, "CHAOS_LEDGER": str(self.ledger)}
        self.groups: list[Group] = []
        self.max_crashes = 3  # of the jobs that are made from now on

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def start(
        self, *options: str, app: str = "tests.support.ledger_app:app", before: Sequence[str] = (), **env: str
    ) -> Group:
        """Start a worker group; `before` is a command that starts it in turn."""
        group = Group({**self.env, **env}, self._log, *options, app=app, before=before)
        self.groups.append(group)
        return group

    def start_in(self, terminal: int) -> Group:
        """Start a worker group in the foreground of a terminal."""
        group = Group(self.env, self._log, before=("setsid", "--ctty"), stdin=terminal)
        self.groups.append(group)
        return group

    @property
    def _log(self) -> Path:
        return self.folder / f"worker-{len(self.groups)}.log"

    async def make_jobs(
        self, kind: str, queue: str, payloads: Sequence[str], timeout_ms: int = 3_600_000
    ) -> list[NewJob]:
        """Make jobs that are not stored yet."""
        ids = await self.store.take_ids(len(payloads))
        return [
            NewJob(
                id=job_id,
                kind=kind,
                queue=queue,
                priority=5,
                payload=payload,
                max_attempts=5,
                max_crashes=self.max_crashes,
                timeout_ms=timeout_ms,
            )
            for job_id, payload in zip(ids, payloads, strict=True)
        ]

    async def enqueue(self, kind: str, queue: str, payloads: Sequence[str], timeout_ms: int = 3_600_000) -> list[int]:
        """Store jobs as a client does, without importing the app."""
        jobs = await self.make_jobs(kind, queue, payloads, timeout_ms)
        await self.store.insert_jobs(jobs)
        await self.store.announce([queue])
        return [job.id for job in jobs]

    async def arrived(self, count: int) -> None:
        """Wait until so many worker processes are alive in the store."""

        async def are_there() -> bool:
            return len([row for row in await self.store.list_workers() if row.dead_at is None]) == count

        await until(are_there, f"{count} worker processes are alive")

    def close(self) -> None:
        """End every worker group, and show what it said if the test failed."""
        for group in self.groups:
            group.close()
            print(group.said())  # noqa: T201 - pytest shows it with the failure

    def notes(self) -> list[Note]:
        return read_ledger(self.ledger)

    async def effects(self) -> Sequence[tuple[int, int]]:
        """The rows that transactional handlers wrote."""
        if self.is_sqlite:
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                return list(connection.execute("SELECT job, claim FROM effects"))
            finally:
                connection.close()
        own = await asyncpg.connect(self.url)
        try:
            return [tuple(row) for row in await own.fetch("SELECT job, claim FROM effects")]
        finally:
            await own.close()


async def add_effects(dsn: str, schema: str) -> None:
    """Make the effects' table in the schema of the test, where every connection of the workers looks first."""
    own = await asyncpg.connect(dsn)
    await own.execute(f"CREATE TABLE {quoted(schema)}.effects (job bigint, claim bigint)")
    await own.close()


def own_url(dsn: str, schema: str) -> str:
    """Name the schema of the test in an address: where to look first, and whose sessions they are."""
    separator = "&" if "?" in dsn else "?"
    return f"{dsn}{separator}search_path={schema}&application_name={schema}"


@pytest.fixture
async def postgres_place(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Place]:
    """Give a place on PostgreSQL."""
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    await add_effects(dsn, schema)
    found = Place(own_url(dsn, schema), schema, tmp_path, store)
    yield found
    found.close()
    await store.close()


@asynccontextmanager
async def place_in(path: Path, folder: Path) -> AsyncIterator[Place]:
    """Give a place in a SQLite file; what the workers write beside it goes to the folder."""
    store = SqliteStore(str(path))
    await store.open()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE effects (job integer, claim integer)")
    connection.close()
    found = Place(f"sqlite:///{path}", "holdfast", folder, store)
    try:
        yield found
    finally:
        found.close()
        await store.close()


@pytest.fixture
async def sqlite_place(tmp_path: Path) -> AsyncIterator[Place]:
    """Give a place in a SQLite file."""
    async with place_in(tmp_path / "jobs.db", tmp_path) as found:
        yield found


@pytest.fixture(params=("sqlite", "postgres"))
def place(request: pytest.FixtureRequest) -> Place:
    """Give a place on each store in turn."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def chance() -> random.Random:
    """Give the dice of a test; the seed is shown when it fails, and CHAOS_SEED repeats it."""
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(2**32)))
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it with the failure
    return random.Random(seed)
