"""Calls that wait for a thread: handed over by event loops, taken one by one, answered together."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable
from typing import Any

# A whole operation: it gets the connection and the store's time in milliseconds, and runs inside a transaction.
Operation = Callable[[sqlite3.Connection, int], Any]


class Call:
    """One operation and the future that waits for it; one that is alone shares its commit with no other."""

    __slots__ = ("error", "future", "is_alone", "is_answered", "loop", "operation", "result")

    def __init__(self, operation: Operation, loop: asyncio.AbstractEventLoop, *, is_alone: bool = False) -> None:
        self.operation = operation
        self.loop = loop
        self.is_alone = is_alone
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_answered = False


class Line:
    """The calls that wait for one thread; a call can be withdrawn until it is taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Call, None] = {}  # ordered, and a withdrawal costs no search
        self._is_closed = False

    def join(self, call: Call) -> bool:
        """Put a call at the end; False when the line is closed."""
        with self._changed:
            if self._is_closed:
                return False
            self._waiting[call] = None
            self._changed.notify()
            return True

    def withdraw(self, call: Call) -> bool:
        """Remove a call; False when it was taken already."""
        with self._changed:
            if call not in self._waiting:
                return False
            del self._waiting[call]
            return True

    def wait(self) -> bool:
        """Wait until there is a call; False when the line is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return bool(self._waiting)

    def take(self, *, joins: bool = False) -> Call | None:
        """Take the first call, if there is one that may join others."""
        with self._changed:
            call = next(iter(self._waiting), None)
            if call is None or (joins and call.is_alone):
                return None
            del self._waiting[call]
            return call

    def take_all(self) -> list[Call]:
        """Take every call there is."""
        with self._changed:
            calls = list(self._waiting)
            self._waiting.clear()
            return calls

    def close(self) -> None:
        """Let nobody join any more; those in the line are still served."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()


def answer(calls: Iterable[Call]) -> None:
    """Tell the callers, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        call.is_answered = True
        by_loop.setdefault(call.loop, []).append(call)
    for loop, group in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, group)


def _resolve(calls: list[Call]) -> None:
    for call in calls:
        if call.future.done():  # the caller gave up meanwhile
            continue
        if call.error is None:
            call.future.set_result(call.result)
        else:
            call.future.set_exception(call.error)
