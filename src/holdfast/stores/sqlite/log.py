"""Writing SQLite's write-ahead log back into the database, always under the turnstile.

No Holdfast process writes meanwhile, so any process may do it: the one whose commit makes the log long. The size of
the log is asked of the file system; opening the file by hand would break SQLite's locks in this process.
"""

import contextlib
import logging
import os
import sqlite3

_logger = logging.getLogger("holdfast")

_FRAME_BYTES = 4096 + 24  # a page of the default size with its header
_LONG_BYTES = 1_000 * _FRAME_BYTES
_TOO_LONG_BYTES = 64 * 1024 * 1024
_RESTART_WAIT_MS = 100  # everybody who wants to write waits as long
_CLOSE_WAIT_MS = 200


class WriteAheadLog:
    """The log of one database, as one process sees it."""

    def __init__(self, database_path: str) -> None:
        self._path = f"{database_path}-wal"
        self._seen_bytes = 0

    def write_back_if_long(self, database: sqlite3.Connection) -> None:
        """Copy the log into the database once it has grown by a thousand pages."""
        size = self._size()
        if size < self._seen_bytes:
            self._seen_bytes = 0  # it was begun anew
        if size - self._seen_bytes < _LONG_BYTES:
            return
        self._seen_bytes = size
        if size < _TOO_LONG_BYTES:
            _checkpoint(database, "PASSIVE")
        elif not _checkpoint(database, "RESTART", _RESTART_WAIT_MS):
            message = "the log %s has %d MB and a reader keeps it from being begun anew: end long read transactions"
            _logger.warning(message, self._path, size // 1024 // 1024)

    def empty(self, database: sqlite3.Connection) -> None:
        """Copy the whole log into the database if nobody is in the way: a good state to leave a file in."""
        _checkpoint(database, "TRUNCATE", _CLOSE_WAIT_MS)

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size  # noqa: PTH116 - on every commit
        except OSError:
            return 0


def _checkpoint(database: sqlite3.Connection, mode: str, wait_ms: int | None = None) -> bool:
    """Write back; False when somebody was in the way, which a later try makes good."""
    usual_wait_ms = None
    try:
        (usual_wait_ms,) = database.execute("PRAGMA busy_timeout").fetchone()
        if wait_ms is not None:
            database.execute(f"PRAGMA busy_timeout = {wait_ms}")
        is_blocked, _, _ = database.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        return not is_blocked
    except sqlite3.Error:
        return False
    finally:
        if usual_wait_ms is not None:
            with contextlib.suppress(sqlite3.Error):
                database.execute(f"PRAGMA busy_timeout = {usual_wait_ms}")
