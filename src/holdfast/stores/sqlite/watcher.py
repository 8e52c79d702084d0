"""The thread that watches a database file for work, however it got there.

It asks SQLite whether anybody has committed: every 2 ms while there is work, and less and less often, down to every
100 ms, while there is none. Only after a commit, or when a datagram says so, it looks into the index of jobs that may
run; most commits are heartbeats and progress and wake nobody. It never writes, so no writer keeps it waiting.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import selectors
import socket
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence

from holdfast import moments
from holdfast.stores.sqlite import ending, errors, opening, statements
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.sockets import HintSocket

_logger = logging.getLogger("holdfast")

FASTEST_S, SLOWEST_S = 0.002, 0.1
SLOWING = 2
BUSY_S = 1.0  # so long after work was seen it looks as often as it can
_PATIENCE_S = 5.0


class Pace:
    """How long to wait until the next look."""

    def __init__(self) -> None:
        self._next = FASTEST_S
        self._busy_until = 0.0

    def pause(self, now: float, *, has_work: bool) -> float:
        """Say how long to wait after a look that found work or none."""
        if has_work:
            self._busy_until = now + BUSY_S
        if now < self._busy_until:
            self._next = FASTEST_S
            return FASTEST_S
        pause, self._next = self._next, min(self._next * SLOWING, SLOWEST_S)
        return pause


class Watcher:
    """Tells an event loop which queues have work."""

    def __init__(self, path: str, queues: Sequence[str], wake: Callable[[str], None], clock: StoreClock) -> None:
        self._path = path
        self._clock = clock
        self._queues = statements.array(queues)
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._found: set[str] = set()  # what the event loop has not been told yet
        self._found_lock = threading.Lock()
        self._failure: str | None = None
        self._is_ended = False
        self._database: sqlite3.Connection | None = None
        self._seen_version: int | None = None
        self._hints = HintSocket.bound(path)
        self._ear, self._mouth = socket.socketpair()  # by which the event loop ends the wait of the thread
        self._thread = threading.Thread(target=self._run, name="holdfast-sqlite-watcher", daemon=True)
        _watchers.add(self)
        self._thread.start()

    @property
    def is_live(self) -> bool:
        """Whether the last look was possible."""
        return self._failure is None and self._thread.is_alive()

    async def close(self) -> None:
        """End the thread; nobody is woken after this was called."""
        self._is_ended = True
        with contextlib.suppress(OSError):
            self._mouth.send(b"!")
        # A disk that hangs must not hang us: the thread ends with its look, and closes everything by itself.
        await ending.ended(self._thread, _PATIENCE_S)

    def disown(self) -> None:
        """In a forked child: never touch again what belongs to the parent."""
        self._is_ended = True
        if self._database is not None:
            # Not even at exit, see `Connection.disown`.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))
        if self._hints is not None:  # or it would seem that the parent still listened when it is gone
            self._hints.close()

    # ---- in the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            stack.callback(self._close_all)
            selector.register(self._ear, selectors.EVENT_READ)
            if self._hints is not None:
                selector.register(self._hints, selectors.EVENT_READ)
            pace, is_told = Pace(), True
            while not self._is_ended:
                has_work = self._looked(is_told=is_told)
                is_told = bool(selector.select(pace.pause(time.monotonic(), has_work=has_work)))
                if is_told and self._hints is not None:
                    self._hints.drain()

    def _looked(self, *, is_told: bool) -> bool:
        """Look once; True when there is work."""
        try:
            if self._database is None:
                self._database = opening.open_for_watching(self._path)
            # In this order: what is committed in between is found now or changes the number again. Each statement is
            # a read transaction of its own that ends with it, or the log could never be written back.
            version = statements.fetch_value(self._database, "data_version")
            if version == self._seen_version and not is_told:
                return False
            now = self._clock.read(self._database)
            ready = statements.fetch(self._database, "ready_queues", queues=self._queues, now=now)
            found = {row[0] for row in ready}
            self._seen_version = version
        except sqlite3.Error as error:
            if not errors.is_busy(error):  # that passes within milliseconds, and the next look comes soon
                self._fail(str(error))
            return False
        self._fail(None)
        self._tell(found)
        return any(not name.startswith("!") for name in found)  # what is no queue is no work

    def _fail(self, failure: str | None) -> None:
        if failure is not None and self._failure is None:
            _logger.warning("the SQLite store %s cannot be watched for work: %s", self._path, failure)
        elif failure is None and self._failure is not None:
            _logger.info("the SQLite store %s is watched for work again", self._path)
        self._failure = failure
        if failure is not None:
            self._seen_version = None

    def _tell(self, found: set[str]) -> None:
        with self._found_lock:
            is_first = not self._found and bool(found)
            self._found |= found
        if is_first:  # or the event loop knows that it has to look
            try:
                self._loop.call_soon_threadsafe(self._wake_all)
            except RuntimeError:  # the event loop is closed
                self._is_ended = True

    def _close_all(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
        if self._hints is not None:
            self._hints.close()
        self._ear.close()
        self._mouth.close()
        _watchers.discard(self)

    # ---- in the event loop -----------------------------------------------------------------------------------------

    def _wake_all(self) -> None:
        with self._found_lock:
            found, self._found = self._found, set()
        for queue in sorted(found):
            if not self._is_ended:
                moments.reach("hint_heard", queue=queue)
                self._wake(queue)


def _disown_all() -> None:
    for watcher in list(_watchers):
        watcher.disown()


_watchers: "weakref.WeakSet[Watcher]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
