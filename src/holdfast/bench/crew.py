"""The worker that the bench measures: `holdfast worker` as a process of its own, which never outlives the bench."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.bench.audit import RunFailed
from holdfast.bench.setup import SETUP, Setup
from holdfast.stores.store import LeaseStore

_START_S = 30.0
_LEAVE_S = 15.0
_LOOK_S = 0.02
_LOG_LINES = 10


@dataclass(frozen=True)
class Start:
    """How a worker is started: the command in front of `worker`, where it runs, and what it is told."""

    command: Sequence[str]
    folder: Path
    setup: Setup
    concurrency: int

    @property
    def log(self) -> Path:
        """Where it writes what it has to say."""
        return self.folder / "worker.log"


class Crew:
    """A worker: its supervisor, and the processes that run jobs."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, processes: int) -> None:
        self.processes: tuple[int, ...] = ()
        self._process = process
        self._log = log
        self._size = processes

    @property
    def supervisor(self) -> int:
        """The id of the process that was started."""
        return self._process.pid

    async def ready(self, store: LeaseStore) -> None:
        """Wait until all its processes are entered in the store."""
        end = time.monotonic() + _START_S
        while len(self.processes) < self._size:
            self.require_alive()
            if time.monotonic() > end:
                message = f"the worker was not ready {_START_S:g} s after its start"
                raise RunFailed(message, *self.said())
            await asyncio.sleep(_LOOK_S)
            rows = await store.list_workers()
            self.processes = tuple(row.info.pid for row in rows if row.dead_at is None)

    def require_alive(self) -> None:
        """Make sure that it has not left by itself."""
        if self._process.returncode is not None:
            message = f"the worker ended in the middle of its work, with exit code {self._process.returncode}"
            raise RunFailed(message, *self.said())

    async def leave(self) -> None:
        """Let it leave as a deployment would."""
        self.require_alive()
        self._process.terminate()
        try:
            async with asyncio.timeout(_LEAVE_S):
                code = await self._process.wait()
        except TimeoutError:
            message = f"the worker had not left {_LEAVE_S:g} s after SIGTERM"
            raise RunFailed(message, *self.said()) from None
        if code != 0:
            message = f"the worker left with exit code {code}"
            raise RunFailed(message, *self.said())

    def said(self) -> list[str]:
        """Quote the end of its log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [f"the worker said: {line}" for line in lines[-_LOG_LINES:]]


@asynccontextmanager
async def started(start: Start, processes: int) -> AsyncIterator[Crew]:
    """Start a worker away from the terminal; when this block is left, it is gone."""
    words = ("-A", "holdfast.bench.app:app", "--processes", str(processes), "--concurrency", str(start.concurrency))
    with start.log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *start.command, str(os.getpid()), "worker", *words, "--log-level", "warning"),
            cwd=start.folder,
            # Its marks go into its own folder, so that nothing of it is left when it has to be killed.
            env={**os.environ, SETUP: msgspec.json.encode(start.setup).decode(), "XDG_RUNTIME_DIR": str(start.folder)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield Crew(process, start.log, processes)
    finally:
        if process.returncode is None:
            process.kill()  # its own processes end with it
            await process.wait()
