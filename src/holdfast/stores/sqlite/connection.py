"""The connection to one database: event loops on one side, a thread that writes and two that read on the other.

One of the two serves searches, which look at many jobs and take longer than all other reads.

A caller waits at most for its deadline. What the writer has not taken by then is withdrawn, and nothing was changed;
what was taken goes through, and its outcome is unknown to the caller.
"""

import asyncio
import contextlib
import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import NoReturn, TypeVar

from holdfast import moments
from holdfast.errors import ConfigError, NotOpen, OutcomeUnknown, StoreUnavailable
from holdfast.stores.sqlite import ending, errors, lending, opening
from holdfast.stores.sqlite.calls import Call, Line
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.loan import FileLender, Loan
from holdfast.stores.sqlite.reader import STEPS_OF_SEARCH, Reader
from holdfast.stores.sqlite.turnstile import FileTurnstile, OpenTurnstile, Turnstile
from holdfast.stores.sqlite.writer import Writer

T = TypeVar("T")

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
_PATIENCE_AFTER_A_FAILURE = 1.0
_FORKED = "was open when this process was forked: open it after the fork only, or start the process by spawn"


class Connection:
    """One database, used from any number of threads and event loops."""

    def __init__(self, path: str, *, synchronous: str = "FULL", deadline: float = 10.0) -> None:
        if synchronous.upper() not in _SYNCHRONOUS:
            message = f"synchronous: expected one of {', '.join(_SYNCHRONOUS)}, got {synchronous!r}"
            raise ConfigError(message)
        self.path = path
        self.is_memory = path == opening.MEMORY
        self.clock = StoreClock()
        self._synchronous = synchronous
        self.deadline = deadline
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._searcher: Reader | None = None
        self._turnstile: Turnstile | None = None
        self._file: str | None = None
        self._threads: list[threading.Thread] = []
        self._lenders: weakref.WeakSet[FileLender] = weakref.WeakSet()
        self._why_unusable: str | None = "is not open: open it first"

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._why_unusable is None

    async def open(self) -> None:
        """Open the file, made if missing, and start the threads."""
        if self._why_unusable is None:
            return
        opening.check_sqlite()
        # SQLite names the log after the real file; processes that come by different links must share a turnstile.
        path = self.path if self.is_memory else os.path.realpath(self.path)  # noqa: ASYNC240 - a few stat() calls
        if path in _inherited_files:
            message = f"the SQLite store {path} {_FORKED}"
            raise NotOpen(message)
        self._file = path
        self._turnstile = _turnstile_of(path)
        self._writer = writer = Writer(path, self._turnstile, self.clock)
        self._reader = None if self.is_memory else Reader(path, self.clock, self.deadline)
        self._searcher = None if self.is_memory else Reader(path, self.clock, self.deadline, STEPS_OF_SEARCH)
        self._threads = []
        _connections.add(self)
        try:
            await self._start("writer", lambda: writer.open(self._synchronous), writer.serve, writer.close)
            for role, reader in (("reader", self._reader), ("searcher", self._searcher)):
                if reader is not None:
                    await self._start(role, reader.open, reader.serve, reader.close)
        except BaseException:
            await self._end_threads(_PATIENCE_AFTER_A_FAILURE)
            raise
        self._why_unusable = None

    async def close(self) -> None:
        """Let what waits be served, write the log back, and end the threads."""
        if self._why_unusable is None:
            self._why_unusable = "is closed: open it again"
            await self._end_threads(self.deadline)

    def require_open(self) -> None:
        """Refuse, with the reason, while calls are not taken."""
        if self._why_unusable is not None:
            self._refuse()

    async def write(self, operation: Callable[[sqlite3.Connection, int], T]) -> T:
        """Run an operation that changes something; its result comes after the commit."""
        if self._why_unusable is not None or self._writer is None:
            self._refuse()
        return await self._call(self._writer.line, operation, is_read=False)

    async def read(self, operation: Callable[[sqlite3.Connection, int], T]) -> T:
        """Run an operation that only reads, in one snapshot."""
        return await self._call(self._line_of(self._reader), operation, is_read=True)

    async def search(self, operation: Callable[[sqlite3.Connection, int], T]) -> T:
        """Run an operation that looks through many jobs, in one snapshot; other reads do not wait for it."""
        # guard: search-reader, without: return await self._call(self._line_of(self._reader), operation, is_read=True)
        return await self._call(self._line_of(self._searcher), operation, is_read=True)

    def _line_of(self, reader: Reader | None) -> Line:
        if self._why_unusable is not None or self._writer is None:
            self._refuse()
        # A database in memory has one connection: a second one would meet table locks that no timeout waits for.
        return self._writer.line if reader is None else reader.line

    def lend(self, loan: Loan) -> "asyncio.Future[None]":
        """Lend a connection that writes to the body of a transaction; the future tells how that ended."""
        if self._why_unusable is not None or self._writer is None or self._file is None:
            self._refuse()
        ended = self._lend_own(self._writer.line, loan) if self.is_memory else self._lend_another(self._file, loan)
        ended.add_done_callback(lambda future: future.cancelled() or future.exception())  # the borrower may be gone
        return ended

    def _lend_own(self, line: Line, loan: Loan) -> "asyncio.Future[None]":
        def operation(database: sqlite3.Connection, _now: int) -> None:
            if loan.is_abandoned:
                return
            lent = lending.lend_own(database, self.clock)
            try:
                loan.serve(lent)
            finally:
                lending.close(lent)

        call = Call(operation, asyncio.get_running_loop(), is_alone=True)
        if not line.join(call):
            self._refuse()
        return call.future

    def _lend_another(self, path: str, loan: Loan) -> "asyncio.Future[None]":
        # guard: sqlite-transaction-durability, without: lender = FileLender(path, "NORMAL", self.deadline, self.clock)
        lender = FileLender(path, self._synchronous, self.deadline, self.clock)
        self._lenders.add(lender)
        return asyncio.wrap_future(lender.start(loan))

    def disown(self) -> None:
        """In a forked child: never touch again what belongs to the parent."""
        self._why_unusable = _FORKED
        for lender in self._lenders:
            lender.disown()
        if self._file is not None and not self.is_memory:
            # SQLite believes that this process holds the parent's locks. A new connection to the same file would rely
            # on them, and lose what it commits when the parent closes.
            _inherited_files.add(self._file)
        for part in (self._writer, self._reader, self._searcher):
            if part is not None and part.database is not None:
                # Not even at exit: closing it would write back, and remove, a log that the parent goes on writing.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(part.database))
        if self._turnstile is not None:  # or the child would hold the turn when the parent dies
            self._turnstile.close()

    async def _call(self, line: Line, operation: Callable[[sqlite3.Connection, int], T], *, is_read: bool) -> T:
        moments.reach("before_store_call")
        loop = asyncio.get_running_loop()
        call = Call(operation, loop)
        if not line.join(call):
            self._refuse()
        timer = loop.call_later(self.deadline, self._give_up, line, call, is_read)
        try:
            result: T = await call.future
            moments.reach("after_store_call")
            return result
        except asyncio.CancelledError:
            line.withdraw(call)  # what was taken goes through
            raise
        finally:
            timer.cancel()

    def _give_up(self, line: Line, call: Call, is_read: bool) -> None:  # noqa: FBT001 - call_later takes no keywords
        is_withdrawn = line.withdraw(call)
        if call.is_answered or call.future.done():  # the answer is on its way
            return
        message = f"the SQLite store {self.path} did not answer within {self.deadline} s: "
        if is_withdrawn or is_read:
            call.future.set_exception(StoreUnavailable(f"{message}nothing was changed; another program may hold it"))
        else:
            call.future.set_exception(OutcomeUnknown(f"{message}the change may or may not happen"))

    def _refuse(self) -> NoReturn:
        message = f"the SQLite store {self.path} {self._why_unusable}"
        raise NotOpen(message)

    async def _start(
        self, role: str, begin: Callable[[], None], serve: Callable[[], None], end: Callable[[], None]
    ) -> None:
        is_open: Future[None] = Future()

        def run() -> None:
            try:
                begin()
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller of open()
                _settle(is_open, errors.translated(error, self.path))
                return
            _settle(is_open, None)
            serve()
            end()

        thread = threading.Thread(target=run, name=f"holdfast-sqlite-{role}", daemon=True)
        thread.start()
        self._threads.append(thread)
        try:
            await asyncio.wait_for(asyncio.wrap_future(is_open), self.deadline)
        except TimeoutError as error:
            message = f"the SQLite store {self.path} could not be opened within {self.deadline} s: "
            message += "another program holds it; end its transaction"
            raise StoreUnavailable(message) from error

    async def _end_threads(self, patience: float) -> None:
        for part in (self._searcher, self._reader, self._writer):
            if part is not None:
                part.line.close()
        # The readers first, or they would be in the way when the writer writes back the log.
        for thread in reversed(self._threads):
            await ending.ended(thread, patience)
        if self._turnstile is not None and not any(thread.is_alive() for thread in self._threads):
            self._turnstile.close()
            _connections.discard(self)


def _turnstile_of(path: str) -> Turnstile:
    if path == opening.MEMORY:
        return OpenTurnstile()
    opening.check_place(path)
    opening.make_file(path)
    try:
        return FileTurnstile(f"{path}-turn")
    except OSError as error:
        message = f"the SQLite store {path}: the lock file {Path(path).name}-turn cannot be opened: {error}"
        raise StoreUnavailable(message) from error


def _settle(future: "Future[None]", error: BaseException | None) -> None:
    with contextlib.suppress(InvalidStateError):  # the caller of open() gave up
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _disown_all() -> None:
    for connection in list(_connections):
        connection.disown()


_inherited_files: set[str] = set()
_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
