"""What SQLite says, in the words of the store: nothing changed, unknown, or this very value is refused."""

import os
import sqlite3
from pathlib import Path

from holdfast import sizes
from holdfast.errors import DataRefused, OutcomeUnknown, SchemaError, StoreError, StoreMoved, StoreUnavailable

# The primary result codes of SQLite, https://www.sqlite.org/rescode.html.
_ERROR, _BUSY, _LOCKED, _INTERRUPT, _IOERR, _FULL = 1, 5, 6, 9, 10, 13  # the low byte of what Python shows
_BUSY_SNAPSHOT = 517  # the whole code: only on a caller's own connection
_TRIGGER = 1811  # the whole code: of a trigger that closes a store whose jobs move away
MOVED = "holdfast: "
"""What such a trigger says first."""

_REASONS: dict[int | None, str] = {
    3: "the file may not be used by this user: check its permissions",
    _BUSY: "another program holds the database: end its transaction",
    _LOCKED: "another program holds the database: end its transaction",
    7: "there is not enough memory",
    8: "the file is read-only: check the permissions of the file and of its folder",
    _INTERRUPT: "it took longer than its deadline",
    _IOERR: "the disk reports an error: check the disk",
    11: "the file is damaged: restore a backup",
    _FULL: "the disk is full: free some space",
    14: "the file cannot be opened: check its path and the permissions of its folder",
    15: "another program holds the database: end its transaction",
    26: "the file is not a SQLite database: check its path",
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the database, which passes."""
    return _code(error) in {_BUSY, _LOCKED}


def is_interrupted(error: sqlite3.Error) -> bool:
    """Whether we have stopped it ourselves."""
    return _code(error) == _INTERRUPT


def translated(error: BaseException, path: str) -> BaseException:
    """Say what an operation's error means for its caller; errors of our own pass unchanged."""
    if isinstance(error, OverflowError | UnicodeEncodeError):  # met while binding a value
        return _with_cause(DataRefused(f"SQLite cannot store this value: {error}"), error)
    if not isinstance(error, sqlite3.Error):
        return error
    code = _code(error)
    if getattr(error, "sqlite_errorcode", None) == _BUSY_SNAPSHOT:
        message = f"the SQLite store {path}: your transaction has read what others have changed since: roll it back, "
        message += f"and begin it with BEGIN IMMEDIATE ({error})"
        return _with_cause(StoreUnavailable(message), error)
    if getattr(error, "sqlite_errorcode", None) == _TRIGGER and str(error).startswith(MOVED):
        return _with_cause(StoreMoved(f"the SQLite store {path}: {str(error).removeprefix(MOVED)}"), error)
    if code in _REASONS:
        return _with_cause(StoreUnavailable(f"the SQLite store {path}: {_reason(code, path)} ({error})"), error)
    if code == _ERROR and str(error).startswith("no such"):
        return _with_cause(SchemaError(f"the SQLite store {path}: {error}: was the file replaced?"), error)
    return _with_cause(DataRefused(f"SQLite refuses this: {error}"), error)


def translated_commit(error: sqlite3.Error, path: str) -> StoreError:
    """Say what a failed COMMIT means: after a disk error the last page may have been written or not."""
    if _code(error) == _IOERR:
        message = f"the SQLite store {path}: the disk failed while a change was committed ({error}): check the disk"
        return _with_cause(OutcomeUnknown(message), error)
    reason = _reason(_code(error), path)
    return _with_cause(StoreUnavailable(f"the SQLite store {path}: {reason} ({error})"), error)


def _reason(code: int | None, path: str) -> str:
    reason = _REASONS.get(code, "the change could not be committed")
    return reason if code != _FULL else f"{reason}{_room_for_log(path)}"


def _room_for_log(path: str) -> str:
    """Say how much has to be free: what is in the log is written into the file before the log gives its room back."""
    try:
        log, disk = Path(f"{path}-wal").stat().st_size, os.statvfs(Path(path).parent)
    except (OSError, ValueError):
        return ""
    free = disk.f_bavail * disk.f_frsize
    if free >= log:
        return ""
    return f", {sizes.size(log)} in all (now {sizes.size(free)}), for its log has to be written into the file first"


def _code(error: sqlite3.Error) -> int | None:
    # Errors that Python's module raises by itself carry no code.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _with_cause(said: StoreError, cause: BaseException) -> StoreError:
    said.__cause__ = cause
    return said
