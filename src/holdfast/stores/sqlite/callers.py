"""Enqueue inside the caller's own transaction, on the caller's `sqlite3` connection and thread.

The job and what the caller changes commit together or not at all. Nothing here commits, rolls back or opens a
savepoint while the caller has a transaction, or lets Python begin one; only on a connection in autocommit mode, where
every statement would be a transaction of its own, the statements are put into one.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.errors import ConfigError
from holdfast.job import NewJob
from holdfast.stores.sqlite import errors, inserting, opening
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.lending import Lent
from holdfast.stores.values import Inserted

T = TypeVar("T")

_logger = logging.getLogger("holdfast")


def enqueue_on(connection: object, path: str, jobs: Sequence[NewJob], clock: StoreClock) -> list[Inserted]:
    """Store jobs under ids of their own, whatever ids they have."""

    def operation(own: sqlite3.Connection) -> list[Inserted]:
        ids = inserting.random_ids(own, len(jobs))
        named = [msgspec.structs.replace(job, id=job_id) for job, job_id in zip(jobs, ids, strict=True)]
        return inserting.insert(own, clock.read(own), named, again=False, admission="whole")

    own = checked(connection, path, clock)
    try:
        if _has_transactions(own):
            return operation(own)
        _logger.warning("enqueue on a sqlite3 connection in autocommit mode: the job is committed at once")
        return _in_one_transaction(own, operation)
    except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
        raise errors.translated(error, path) from error


def checked(connection: object, path: str, clock: StoreClock) -> sqlite3.Connection:
    """Refuse a connection that would commit elsewhere than in the store's own file."""
    own = _unwrapped(connection)
    if isinstance(own, Lent) and own.clock is clock:
        return own  # that of a transaction of this very store, which may be in memory
    if not isinstance(own, sqlite3.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        message = f"connection: expected a sqlite3.Connection to {path}, or one of Django, or a Connection or Session"
        message += f" of SQLAlchemy over it, got {kind}"
        raise ConfigError(message)
    cursor = own.cursor()
    cursor.row_factory = None
    # By number, not by name: the connection may give texts back as bytes.
    files = [os.fsdecode(file) for number, _, file in cursor.execute("PRAGMA database_list") if number == 0]
    main = files[0] if files else ""
    if path == opening.MEMORY or not main or not Path(path).exists() or not Path(main).samefile(path):
        message = f"connection: expected one whose main database is the store's file {path}, "
        message += f"got one to {main or 'a database in memory'}"
        raise ConfigError(message)
    return own


def _unwrapped(connection: Any) -> object:
    """Find the `sqlite3` connection inside those of other libraries, which need not be installed."""
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(connection).__mro__}
    if names & {"sqlalchemy.Session", "sqlalchemy.scoped_session"}:
        return _unwrapped(connection.connection())
    if "sqlalchemy.Connection" in names:
        # SQLAlchemy commits only what it has begun, and it begins with its own first statement.
        connection.exec_driver_sql("SELECT 1")
        return connection.connection.driver_connection
    if names & {"django.BaseDatabaseWrapper", "django.ConnectionProxy"}:
        connection.ensure_connection()
        return connection.connection
    return connection


def _has_transactions(connection: sqlite3.Connection) -> bool:
    """Whether a transaction is open, or Python begins one before the first change."""
    if connection.in_transaction:
        return True
    # Python 3.12 has `autocommit`; where it is True the older `isolation_level` has no meaning.
    return connection.isolation_level is not None and getattr(connection, "autocommit", None) is not True


def _in_one_transaction(connection: sqlite3.Connection, operation: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = operation(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result
