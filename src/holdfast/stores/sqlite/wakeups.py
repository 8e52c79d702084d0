"""How workers learn of work on SQLite: by watching the file, or in memory by being told."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from holdfast import moments
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.sockets import send_hints
from holdfast.stores.sqlite.watcher import Watcher
from holdfast.stores.store import EVERY_HINT, Listening


class Listener:
    """One who listens at a database in memory, which only this process can change."""

    is_live = True

    def __init__(self, queues: Sequence[str], wake: Callable[[str], None]) -> None:
        self._queues = frozenset(queues)
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._is_ended = False

    def tell(self, queues: Sequence[str]) -> None:
        """Wake for those of the queues that were asked for, from whatever thread."""
        for queue in sorted(queues if EVERY_HINT in self._queues else self._queues.intersection(queues)):
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                self._loop.call_soon_threadsafe(self._hear, queue)

    def end(self) -> None:
        """Wake nobody any more."""
        self._is_ended = True

    def _hear(self, queue: str) -> None:
        if not self._is_ended:
            moments.reach("hint_heard", queue=queue)
            self._wake(queue)


class SqliteWakeups:
    """The verbs of `WakeStore`."""

    connection: Connection
    listeners: set[Listener]

    async def announce(self, queues: Sequence[str]) -> None:
        if not queues:
            return
        if self.connection.is_memory:
            for listener in list(self.listeners):
                listener.tell(queues)
            return
        send_hints(_real_path(self.connection.path))

    @asynccontextmanager
    async def listen(self, queues: Sequence[str], wake: Callable[[str], None]) -> AsyncIterator[Listening]:
        self.connection.require_open()
        if self.connection.is_memory:
            listener = Listener(queues, wake)
            self.listeners.add(listener)
            try:
                yield listener
            finally:
                self.listeners.discard(listener)
                listener.end()
            return
        watcher = Watcher(_real_path(self.connection.path), queues, wake, self.connection.clock)
        try:
            yield watcher
        finally:
            await watcher.close()


def _real_path(path: str) -> str:
    """Name the file as SQLite does, so that processes that come by different links meet in one folder."""
    return os.path.realpath(path)
