"""A connection in the hands of a handler: every use of it passes a guard, and it can be taken back at any moment.

The guard lets one thread into SQLite at a time, so that what was lent is rolled back or closed only while nobody is
inside; Python's module itself would crash or hang there.
"""

import re
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self, TypeVar

from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.sqlite import opening
from holdfast.stores.sqlite.clock import StoreClock

T = TypeVar("T")

_INTERRUPT_EVERY_S = 0.01
# Comments may stand before the word; ROLLBACK TO belongs to a savepoint, which a body may have.
_ENDS_TRANSACTION = re.compile(
    r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*(?:BEGIN|COMMIT|END|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)


class Guard:
    """Who may use a connection: the thread that made it, then its borrower, then only the thread that took it back."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.cursors: weakref.WeakSet[LentCursor] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._owner: int | None = threading.get_ident()
        self._reason: Exception | None = None

    @contextmanager
    def use(self) -> Iterator[None]:
        """Let one thread in, or say why nobody gets in any more."""
        with self._lock:
            if self._owner != threading.get_ident():
                if self._reason is not None:
                    raise type(self._reason)(*self._reason.args)  # each use raises its own
                if not self.database.in_transaction:  # guard: rolled-back-body
                    # What the body writes from here on would be committed at once and by itself.
                    message = "the transaction was rolled back by an earlier error of SQLite: let that error leave "
                    message += "the block; nothing of the transaction is kept"
                    raise StoreUnavailable(message)
            yield

    def hand_over(self) -> None:
        """Let the borrower in, on whatever threads it has."""
        self._owner = None

    def take_back(self, reason: Exception) -> None:
        """Let nobody in any more, and wait until the last one is out."""
        self._reason = self._reason or reason
        while not self._lock.acquire(timeout=_INTERRUPT_EVERY_S):
            self.database.interrupt()
        try:
            self._owner = threading.get_ident()
            for cursor in list(self.cursors):
                cursor.close()  # one that was not read to its end would keep the connection open
        finally:
            self._lock.release()


class LentCursor(sqlite3.Cursor):
    """A cursor of a lent connection."""

    guard: Guard

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run one statement."""
        _refuse_end(sql)
        with self.guard.use():
            super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """Run one statement for each of the parameters."""
        _refuse_end(sql)
        with self.guard.use():
            super().executemany(sql, parameters)
        return self

    def executescript(self, _script: str, /) -> NoReturn:
        """Refuse a script, before which Python commits."""
        _refuse("executescript(), which commits first: run the statements one by one")

    def fetchone(self) -> Any:
        """Read the next row."""
        with self.guard.use():
            return super().fetchone()

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        """Read the next rows."""
        with self.guard.use():
            return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        """Read the rows that are left."""
        with self.guard.use():
            return super().fetchall()

    def __next__(self) -> Any:
        with self.guard.use():
            return super().__next__()


class Lent(sqlite3.Connection):
    """The connection as its borrower sees it: to a database of its own, or to that of the thread that lends it."""

    clock: StoreClock

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.guard = Guard(self)

    @property
    def in_transaction(self) -> bool:
        """Whether the transaction is open."""
        database = self.guard.database
        return super().in_transaction if database is self else database.in_transaction

    def cursor(self, factory: Any = LentCursor, /) -> Any:
        """Make a cursor that passes the guard."""
        if factory is not LentCursor:
            _refuse("a cursor class of its own")
        with self.guard.use():
            database = self.guard.database
            cursor = super().cursor(LentCursor) if database is self else database.cursor(LentCursor)
        cursor.guard = self.guard
        cursor.row_factory = self.row_factory
        self.guard.cursors.add(cursor)
        return cursor

    # Python's own do not go through cursor().
    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run one statement."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Run one statement for each of the parameters."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, _script: str, /) -> NoReturn:
        """Refuse a script, before which Python commits."""
        _refuse("executescript(), which commits first: run the statements one by one")

    def commit(self) -> NoReturn:
        """Refuse to end the transaction."""
        _refuse("commit()")

    def rollback(self) -> NoReturn:
        """Refuse to end the transaction."""
        _refuse("rollback()")

    def close(self) -> NoReturn:
        """Refuse to close what belongs to the store."""
        _refuse("close()")

    def __enter__(self) -> NoReturn:
        _refuse("`with connection`, which commits")


def lend_file(path: str, synchronous: str, busy_s: float, clock: StoreClock) -> Lent:
    """Open a connection of a transaction's own to a file."""
    lent = opening.open_to_lend(path, synchronous, busy_s, Lent)
    lent.clock = clock
    return lent


def lend_own(database: sqlite3.Connection, clock: StoreClock) -> Lent:
    """Lend the only connection there is, through a stand-in that leads nowhere once it was taken back."""
    lent = opening.open_stand_in(Lent)
    lent.guard.database = database
    lent.clock = clock
    return lent


def control(lent: Lent, statement: str) -> None:
    """Begin or end the transaction, which only the lender may do."""
    sqlite3.Connection.execute(lent.guard.database, statement)


def close(lent: Lent) -> None:
    """Let go of what was lent, which only the lender may do."""
    sqlite3.Connection.close(lent)


def _refuse_end(sql: str) -> None:
    if _ENDS_TRANSACTION.match(sql):  # guard: lent-transaction-end
        _refuse(f"{sql.strip()[:40]!r}")


def _refuse(what: str) -> NoReturn:
    message = f"inside a transaction of Holdfast: expected no end and no beginning of a transaction, got {what}; "
    message += "leaving the block commits, an error that leaves it rolls back"
    raise ConfigError(message)
