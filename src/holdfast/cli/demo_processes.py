"""The processes of the demo: `holdfast worker` and `holdfast serve`, neither of which outlives it."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.demo import app as shop
from holdfast.errors import ConfigError
from holdfast.server import require_server

_APP = ("-A", "holdfast.demo.app:app")
WORKER = ("worker", *_APP, "--processes", "2", "--concurrency", "8")
_SERVER = ("serve", *_APP, "--port", "0", "--link")
_LOG_LINES = 10
_LOOK_S = 0.1
_START_S = 30.0
_LINK = re.compile(r"http://\S+/login\?link=\S+")


class DemoServer:
    """The server beside the demo, if its packages are there."""

    def __init__(self, process: asyncio.subprocess.Process | None, log: Path, missing: str | None) -> None:
        self.missing = missing  # why there is none
        self.address: str | None = None
        self._process = process
        self._log = log

    async def link(self) -> str | None:
        """Wait for the link that lets a person in once; None when the server has ended instead."""
        try:
            async with asyncio.timeout(_START_S):
                while self._process is not None and self._process.returncode is None:
                    found = _LINK.search(self._log.read_text(encoding="utf-8", errors="replace"))
                    if found is not None:
                        self.address = found[0].partition("login?")[0]
                        return found[0]
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass
        return None


@asynccontextmanager
async def worker(url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `holdfast worker` as a process of its own; it is gone when this block is left."""
    async with _started(WORKER, url, folder) as process:
        yield process


@asynccontextmanager
async def server(url: str, folder: Path) -> AsyncIterator[DemoServer]:
    """Start `holdfast serve` as a process of its own, where it can be."""
    log = folder / "serve.log"
    try:
        require_server()
    except ConfigError as error:
        yield DemoServer(None, log, str(error))
        return
    async with _started(_SERVER, url, folder) as process:
        yield DemoServer(process, log, None)


@asynccontextmanager
async def _started(command: Sequence[str], url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a command away from the terminal; it is gone when this block is left."""
    with (folder / f"{command[0]}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast.cli.demo_worker", str(os.getpid()), *command),
            cwd=folder,
            env={**os.environ, shop.STORE: url, "PYTHONUNBUFFERED": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()  # its own processes end with it
            await process.wait()


def log_of(folder: Path, name: str) -> list[str]:
    """Read the last lines that a process said."""
    file = folder / f"{'serve' if name == 'server' else name}.log"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"the {name} said: {line}" for line in lines[-_LOG_LINES:]]
