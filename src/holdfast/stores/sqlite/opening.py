"""Opening a database: refusing early what cannot work, and the settings of every connection."""

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any, TypeVar, cast

from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.sqlite.clock import StoreClock

C = TypeVar("C", bound=sqlite3.Connection)

MEMORY = ":memory:"
_OLDEST_SQLITE = (3, 37, 0)  # the first with STRICT tables
_BUSY_SECONDS = 30  # for programs that do not pass our turnstile
_LARGEST_CLOCK_ERROR_MS = 60_000
_STATEMENTS = 256  # prepared ones that a connection keeps: more than there are


def check_sqlite() -> None:
    """Refuse a SQLite library that lacks what the schema needs."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        message = f"the SQLite store needs SQLite {oldest} or newer, this Python has {sqlite3.sqlite_version}: "
        message += "install a newer Python or SQLite"
        raise ConfigError(message)


def check_place(path: str) -> None:
    """Refuse a file that cannot be opened or written, with the reason that SQLite would not tell."""
    file, folder = Path(path), Path(path).parent
    if not folder.is_dir():
        message = f"the SQLite store {path}: the folder {folder} does not exist: make it, or correct the path"
        raise ConfigError(message)
    if file.exists() and not file.is_file():
        message = f"the SQLite store {path}: expected a file, got a folder or a device: correct the path"
        raise ConfigError(message)
    if not os.access(folder, os.W_OK | os.X_OK):
        message = f"the SQLite store {path}: this user may not write to the folder {folder}, in which SQLite keeps "
        message += "its log: change the permissions"
        raise StoreUnavailable(message)
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        message = f"the SQLite store {path}: this user may not read and write the file: change its permissions"
        raise StoreUnavailable(message)


def make_file(path: str) -> None:
    """Make the file for this user alone, if it is missing: SQLite would ask the umask; its log gets the file's mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # guard: database-mode
    except FileExistsError:
        pass
    except OSError as error:
        message = f"the SQLite store {path}: the file cannot be made: {error.strerror}"
        raise StoreUnavailable(message) from error


def open_for_writing(path: str, synchronous: str) -> sqlite3.Connection:
    """Open the connection that writes; make the file if it is missing."""
    # One in memory is lent to the bodies of transactions, which run on other threads.
    return _prepared(_connect(path, check_same_thread=path != MEMORY), path, synchronous)


def open_to_lend(path: str, synchronous: str, busy_s: float, kind: type[C]) -> C:
    """Open a connection that writes, for the body of a transaction, on whatever thread it runs."""
    lent = _connect(path, timeout=busy_s, check_same_thread=False, factory=kind)
    return _prepared(cast("C", lent), path, synchronous)


def open_stand_in(kind: type[C]) -> C:
    """Open a connection that only stands for another one."""
    return cast("C", _connect(MEMORY, check_same_thread=False, factory=kind))


def _prepared(database: C, path: str, synchronous: str) -> C:
    try:
        if path != MEMORY:
            # Only a file without tables takes this setting, and switching the log on writes the first page.
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _switch_log_on(database, path)
            database.execute("PRAGMA wal_autocheckpoint = 0")  # the log is written back under the turnstile only
            database.execute("PRAGMA journal_size_limit = 0")  # so that the size of the log tells how full it is
            # guard: sqlite-durability, without: database.execute("PRAGMA synchronous = NORMAL")
            database.execute(f"PRAGMA synchronous = {synchronous}")
        database.execute("PRAGMA temp_store = MEMORY")
        _check_clock(database)
    except BaseException:
        sqlite3.Connection.close(database)  # one that is to be lent does not let its borrower close it
        raise
    return database


def open_for_reading(path: str) -> sqlite3.Connection:
    """Open a connection that cannot write."""
    database = _connect(path)
    database.execute("PRAGMA query_only = ON")
    database.execute("PRAGMA temp_store = MEMORY")
    return database


def open_for_watching(path: str) -> sqlite3.Connection:
    """Open a connection that cannot write and never waits: who watches looks again soon, and ends when it is told."""
    database = open_for_reading(path)
    database.execute("PRAGMA busy_timeout = 0")
    return database


def _connect(path: str, *, timeout: float = _BUSY_SECONDS, **options: Any) -> sqlite3.Connection:
    database: sqlite3.Connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, cached_statements=_STATEMENTS, **options
    )
    if sys.platform == "darwin":  # where fsync alone leaves the data in the drive's cache
        database.execute("PRAGMA fullfsync = ON")
        database.execute("PRAGMA checkpoint_fullfsync = ON")
    return database


def _switch_log_on(database: sqlite3.Connection, path: str) -> None:
    (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        message = f"the SQLite store {path}: expected the file system to allow a write-ahead log, got journal mode "
        message += f"{mode}: put the file on a local disk"
        raise ConfigError(message)


def _check_clock(database: sqlite3.Connection) -> None:
    now = StoreClock().read(database)
    if not isinstance(now, int) or abs(now - time.time() * 1_000) > _LARGEST_CLOCK_ERROR_MS:
        message = f"the clock of SQLite: expected about {int(time.time() * 1_000)} milliseconds, got {now!r}: "
        message += "install another build of SQLite"
        raise ConfigError(message)
