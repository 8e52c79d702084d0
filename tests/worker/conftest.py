"""Apps on each store, for a worker inside the test's own process."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.stores.postgres.store import PostgresStore
from holdfast.worker import lease, pump
from tests.support import raw
from tests.support.sessions import one_loop
from tests.support.variants import STORES
from tests.support.workers import BRISK, MakeApp

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
async def empty_schema(dsn: str, shared_schema: str) -> AsyncIterator[str]:
    """Give that schema, with nothing in it and its clock running."""
    store = PostgresStore(dsn, schema=shared_schema)
    await store.open()
    await store.set_time(None)
    await raw.clear(store)
    yield shared_schema
    await store.close()


@pytest.fixture
def make_sqlite_file(tmp_path: Path) -> MakeApp:
    """Make apps on a SQLite file."""

    def make(**settings: Any) -> Holdfast:
        given: dict[str, Any] = {"worker": BRISK, "synchronous": "normal"}
        return Holdfast(f"sqlite:///{tmp_path}/jobs.db", **(given | settings))

    return make


@pytest.fixture
def make_postgres(dsn: str, empty_schema: str) -> MakeApp:
    """Make apps on PostgreSQL."""

    def make(**settings: Any) -> Holdfast:
        given: dict[str, Any] = {"schema": empty_schema, "worker": BRISK}
        return Holdfast(dsn, **(given | settings))

    return make


@pytest.fixture
def make_sqlite_memory() -> MakeApp:
    """Make apps on SQLite in memory."""

    def make(**settings: Any) -> Holdfast:
        given: dict[str, Any] = {"worker": BRISK}
        return Holdfast("sqlite://", **(given | settings))

    return make


@pytest.fixture(params=STORES)
def make_app(request: pytest.FixtureRequest) -> MakeApp:
    """Make apps on each store in turn: one meaning on all of them."""
    found: MakeApp = request.getfixturevalue(f"make_{request.param.replace('-', '_')}")
    return found


@pytest.fixture(params=["sqlite-file", "postgres"])
def make_shared_app(request: pytest.FixtureRequest) -> MakeApp:
    """Make apps on each store that other processes can reach."""
    found: MakeApp = request.getfixturevalue(f"make_{request.param.replace('-', '_')}")
    return found


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn."""
    async with make_app() as app:
        yield app


@pytest.fixture
async def memory_app(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app in memory, for what no store decides."""
    async with make_sqlite_memory() as app:
        yield app


@pytest.fixture
def claims_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker claim ahead as long as the test takes, once as many of its jobs have ended quickly."""
    monkeypatch.setattr(pump, "_RATE_WINDOW_S", 3_600.0)


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases be renewed ten times a second, as a lease of 0.3 s would be, without its danger of ending."""
    monkeypatch.setattr(lease, "RENEWALS", 100)
