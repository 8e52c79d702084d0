"""What work costs in CPU seconds, of this program's processes and of the server together.

On a machine that others use too, time passes for their sake as well; CPU seconds are spent by our own processes only.
"""

import asyncio
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import psutil  # type: ignore[import-untyped] # it carries no types

from benchmarks import tree

_PAUSE_S = 0.25


class Expense:
    """CPU seconds by the clock on the wall; empty where the server is not on this machine."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._spent: list[float] = []

    def note(self, roots: list[int]) -> None:
        """Look once."""
        self._spent.append(tree.cpu_s(roots))
        self._times.append(time.time())

    def until(self, at: float) -> float | None:
        """Tell how many seconds were spent up to a time."""
        if not self._times:
            return None
        place = min(max(bisect_left(self._times, at), 1), len(self._times) - 1)
        began, ended = self._times[place - 1], self._times[place]
        share = min(max((at - began) / (ended - began), 0.0), 1.0)
        return self._spent[place - 1] + share * (self._spent[place] - self._spent[place - 1])


@contextmanager
def expense(dsn: str) -> Iterator[Expense]:
    """Note the expense of a block, four times a second."""
    found = Expense()
    roots = _roots(dsn)
    over = threading.Event()

    def serve() -> None:
        while not over.wait(_PAUSE_S):
            found.note(roots)

    if not roots:
        yield found
        return
    found.note(roots)
    watcher = threading.Thread(target=serve, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
        found.note(roots)


def _roots(dsn: str) -> list[int]:
    """Name this process and the server, unless that runs below this one; nothing where the server runs elsewhere."""
    own = os.getpid()
    server = asyncio.run(_server(dsn))
    if server is None:
        return []
    return [own] if own in {parent.pid for parent in server.parents()} else [own, server.pid]


async def _server(dsn: str) -> psutil.Process | None:
    """Find the server as the parent of a session's process, if there is such a process here."""
    connection = await asyncpg.connect(dsn)
    try:
        server = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()")).parent()
        return server if server is not None and "postgres" in server.name() else None
    except psutil.Error:
        return None
    finally:
        await connection.close()
