"""Stores that are not open yet, for apps to be opened on."""

from pathlib import Path

import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.variants import STORES

AnyStore = PostgresStore | SqliteStore


@pytest.fixture(params=STORES)
def closed_store(request: pytest.FixtureRequest, tmp_path: Path) -> AnyStore:
    """Give each store in turn, not open."""
    if request.param == "postgres":
        return PostgresStore(request.getfixturevalue("dsn"), schema=request.getfixturevalue("schema"))
    return SqliteStore(":memory:" if request.param == "sqlite-memory" else str(tmp_path / "jobs.db"))
