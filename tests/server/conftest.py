"""Apps that a server serves."""

from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from holdfast import Holdfast
from holdfast.server import latch
from tests.server.browser import started
from tests.server.furnished import furnish, furnished_app
from tests.support.web import PAGE, visit
from tests.support.workers import MakeApp
from tests.worker.conftest import (
    app,
    empty_schema,
    make_app,
    make_postgres,
    make_shared_app,
    make_sqlite_file,
    make_sqlite_memory,
    memory_app,
    shared_schema,
)

__all__ = [
    "app",
    "empty_schema",
    "make_app",
    "make_postgres",
    "make_shared_app",
    "make_sqlite_file",
    "make_sqlite_memory",
    "memory_app",
    "shared_schema",
]


@pytest.fixture(autouse=True)
def stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an open server look for tokens once only: one that a test makes would shut it out after two seconds."""
    monkeypatch.setattr(latch, "LOOK_S", 3_600.0)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser of all tests that are marked `IN_BROWSER`: to start one takes as long as such a test."""
    async with started() as browser:
        yield browser


@pytest.fixture
async def town(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """A store with something on every page."""
    app = furnished_app(make_sqlite_memory)
    async with app:
        await furnish(app)
        yield app


@pytest.fixture
async def web(town: Holdfast) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody on this machine, who may do everything."""
    async with visit(town, is_open=True) as asked:
        asked.headers.update(PAGE)
        yield asked
