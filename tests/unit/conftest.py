"""Nothing here needs a database: a test that opens a store is in the wrong folder."""

import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore


@pytest.fixture
def dsn() -> str:
    """Refuse what the fixture of this name gives to other tests."""
    pytest.fail("tests/unit needs no database: move the test to tests/stores")


@pytest.fixture(autouse=True)
def without_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to open a store, by whatever way a test comes to it."""

    async def refuse(_self: object) -> None:
        pytest.fail("tests/unit needs no database: move the test to tests/stores")

    for store in (PostgresStore, SqliteStore):
        monkeypatch.setattr(store, "open", refuse)
