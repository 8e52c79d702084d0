"""Huey on a SQLite file."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from huey import SqliteHuey

from benchmarks.contestants.contestant import COROUTINES, Contestant, main
from benchmarks.contestants.ledger import Ledger

_POLL_S = 0.01


def queue(url: str) -> Any:
    """Open the queue in a file."""
    return SqliteHuey("bench", filename=_path(url), results=False)


def task(huey: Any, handler: Callable[..., None]) -> Any:
    """Make the task; Huey calls it after the handler's module, which has to be the same on both sides."""
    return huey.task(name="record")(handler)


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


class Huey(Contestant):
    """Huey, whose consumer takes a job out of the file before it runs it."""

    name = "huey"
    store = "sqlite"
    packages = ("huey",)
    settings: ClassVar[Mapping[str, object]] = {
        "delivery": "at most once, its only way: a job leaves the file before it runs, and nothing acknowledges it",
        "results": "not kept",
        "journal_mode": "wal",
        "synchronous": "SQLite's own default, which is FULL",
        "worker": "huey_consumer: one thread, or as many processes; warnings logged; SIGTERM lets a running job end",
        "polling": f"every {_POLL_S} s; the default is 0.1 s, growing to 10 s when idle",
        "enqueue": f"synchronous: called directly by one, in {COROUTINES} threads by many coroutines",
    }
    has_bulk = False

    async def prepare(self) -> None:
        """Make the file anew, with its schema."""
        _remove(_path(self.url))
        queue(self.url).storage.close()

    async def open(self) -> None:
        """Open the file."""
        self._huey = queue(self.url)
        self._task = task(self._huey, Ledger.record)
        self._in_threads: bool | None = None
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(COROUTINES))

    async def close(self) -> None:
        """Close the file."""
        self._huey.storage.close()

    async def enqueue(self, number: int) -> None:
        """Enqueue one job, by a thread when others are enqueueing too."""
        if self._in_threads is None:  # asked once, as it takes time; all who enqueue have started by the first call
            self._in_threads = len(asyncio.all_tasks()) > 1
        if self._in_threads:
            await asyncio.to_thread(self._task, number)
        else:
            self._task(number)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command, which starts the processes."""
        consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "benchmarks.contestants.huey_worker.huey"]
        polling = ["--delay", str(_POLL_S), "--max-delay", str(_POLL_S), "--backoff", "1"]
        model = ["--workers", str(processes), "--worker-type", "process" if processes > 1 else "thread"]
        quiet = ["--no-periodic", "--quiet", "--graceful-signal", "TERM"]
        return [[*consumer, *model, *polling, *quiet]]

    async def open_jobs(self) -> int:
        """Count the jobs that wait; the file does not show those that run."""
        return int(self._huey.pending_count() + self._huey.scheduled_count())


if __name__ == "__main__":
    main(Huey)
