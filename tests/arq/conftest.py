"""Arq workers as processes of their own, on a Valkey of each test's own."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.backends.arq import ArqQueueBackend, arq_pool
from tests.arq.program import make_app, noted
from tests.support.valkey import Valkey
from tests.support.wait import until

ROOT = Path(__file__).parents[2]


class Fleet:
    """The Arq workers of one test, and what they did."""

    def __init__(self, url: str, schema: str, redis_url: str, folder: Path) -> None:
        self.queue = f"arq:{uuid.uuid4().hex[:12]}"
        self.folder = folder
        self.app = make_app(url, schema, redis_url, self.queue)
        self.redis_url = redis_url
        self._environment = {"ARQ_TEST_URL": url, "ARQ_TEST_SCHEMA": schema, "ARQ_TEST_REDIS": redis_url}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *, jobs: int = 4, timeout: str = "5m") -> subprocess.Popen[bytes]:
        """Start one more worker, by Arq's own program."""
        more = {"ARQ_TEST_QUEUE": self.queue, "ARQ_TEST_JOBS": str(jobs), "ARQ_TEST_TIMEOUT": timeout}
        folder = {"ARQ_TEST_FOLDER": str(self.folder), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        with (self.folder / "said").open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "arq", "tests.arq.program.WorkerSettings"],
                cwd=ROOT,
                env=os.environ | self._environment | more | folder,
                stdout=said,
                stderr=said,
            )
        self._processes.append(process)
        return process

    @property
    def noted(self) -> list[str]:
        return noted(self.folder)

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    async def until_noted(self, line: str) -> None:
        await until(lambda: line in self.noted)

    def close_gate(self, name: str) -> None:
        (self.folder / f"closed-{name}").touch()

    def open_gate(self, name: str) -> None:
        (self.folder / f"closed-{name}").unlink()

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


@pytest.fixture
def server() -> Iterator[Valkey]:
    """Give a Valkey of this test's own."""
    server = Valkey()
    server.start()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, server: Valkey, tmp_path: Path) -> Iterator[Fleet]:
    """Give workers that do not run yet, on each store in turn."""
    if request.param == "sqlite":
        url, schema = f"sqlite:///{tmp_path / 'jobs.db'}", "holdfast"
    else:
        url, schema = request.getfixturevalue("dsn"), request.getfixturevalue("schema")
    fleet = Fleet(url, schema, server.url, tmp_path)
    yield fleet
    fleet.end()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Holdfast]:
    """Give the app of the fleet, open."""
    async with fleet.app:
        yield fleet.app


@pytest.fixture
async def backend(fleet: Fleet) -> AsyncIterator[ArqQueueBackend]:
    """Give the queue of the fleet, as Arq sees it."""
    backend = ArqQueueBackend(arq_pool(fleet.redis_url, fleet.queue))
    yield backend
    await backend.close()
