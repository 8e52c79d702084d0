"""The one thread of a process that writes, and the group commit it makes."""

import contextlib
import sqlite3
import time

from holdfast.errors import StoreUnavailable
from holdfast.stores.sqlite import calls, errors, opening
from holdfast.stores.sqlite.calls import Call, Line
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.log import WriteAheadLog
from holdfast.stores.sqlite.turnstile import Turnstile

_GROUP_SECONDS = 0.020  # so long may others wait for this process


class Writer:
    """Serves a line of operations in groups.

    Turnstile, BEGIN IMMEDIATE, each operation under a savepoint of its own, COMMIT, and only then the answers: many
    small operations share one fsync, one that fails disturbs nobody, and no answer is given for what is not on disk.
    """

    def __init__(self, path: str, turnstile: Turnstile, clock: StoreClock) -> None:
        self.line = Line()
        self.database: sqlite3.Connection | None = None
        self._path = path
        self._turnstile = turnstile
        self._clock = clock
        self._log = WriteAheadLog(path)

    def open(self, synchronous: str) -> None:
        """Open the database in this thread."""
        with self._turnstile:
            self.database = opening.open_for_writing(self._path, synchronous)

    def serve(self) -> None:
        """Serve the line until it is closed and empty."""
        assert self.database is not None  # noqa: S101 - opened before
        while self.line.wait():
            try:
                with self._turnstile:
                    self._run_group(self.database)
                    self._log.write_back_if_long(self.database)
            except OSError as error:  # of the lock file: nothing was begun, and the next caller may have more luck
                self._refuse_waiting(StoreUnavailable(f"the lock file of the SQLite store {self._path}: {error}"))

    def close(self) -> None:
        """Leave the file as one piece, if nobody is in the way, and let go of it."""
        if self.database is None:
            return
        with self._turnstile, contextlib.suppress(sqlite3.Error):
            self._log.empty(self.database)
            self.database.close()

    def _run_group(self, database: sqlite3.Connection) -> None:
        if not self._begin(database):
            return
        taken: list[Call] = []
        try:
            now = self._clock.read(database)
            last_start = time.monotonic() + _GROUP_SECONDS
            while time.monotonic() < last_start and (call := self.line.take(joins=bool(taken))) is not None:
                taken.append(call)
                _run(database, call, now, self._path)
                if not database.in_transaction:  # SQLite gave up the whole group, not only this operation
                    _fail(taken, call.error)
                    return
                if call.is_alone:
                    break
            database.execute("COMMIT")
        except sqlite3.Error as error:
            _fail(taken, errors.translated_commit(error, self._path))
        finally:
            if database.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
            calls.answer(taken)

    def _begin(self, database: sqlite3.Connection) -> bool:
        try:
            database.execute("BEGIN IMMEDIATE")  # guard: immediate-begin, without: database.execute("BEGIN")
        except sqlite3.Error as error:
            if not errors.is_busy(error):  # while somebody holds the database, callers give up by their deadlines
                self._refuse_waiting(errors.translated(error, self._path))
            return False
        return True

    def _refuse_waiting(self, error: BaseException) -> None:
        waiting = self.line.take_all()
        _fail(waiting, error)
        calls.answer(waiting)


def _run(database: sqlite3.Connection, call: Call, now: int, path: str) -> None:
    try:
        database.execute("SAVEPOINT operation")
        call.result = call.operation(database, now)
        database.execute("RELEASE operation")
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        call.error = errors.translated(error, path)
        if database.in_transaction:
            database.execute("ROLLBACK TO operation")
            database.execute("RELEASE operation")


def _fail(group: list[Call], error: BaseException | None) -> None:
    for call in group:
        if error is not None:
            call.error = type(error)(*error.args)  # each caller raises its own
            call.error.__cause__ = error
