"""An OS lock at which processes queue before they write.

SQLite's own way of waiting is to sleep and guess, and under load one process can starve the others for seconds. A
lock of the operating system hands the turn on instead, and ends with the process that holds it.
"""

import contextlib
import os
import sys
from types import TracebackType
from typing import Protocol

if sys.platform == "win32":
    import ctypes
    import msvcrt

    _EXCLUSIVE = 2

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", ctypes.c_ulong),
            ("offset_high", ctypes.c_ulong),
            ("event", ctypes.c_void_p),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)

    def _lock(file: int) -> None:
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if not _kernel.LockFileEx(handle, _EXCLUSIVE, 0, 1, 0, ctypes.byref(_Overlapped())):
            raise ctypes.WinError(ctypes.get_last_error())

    def _unlock(file: int) -> None:
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if not _kernel.UnlockFileEx(handle, 0, 1, 0, ctypes.byref(_Overlapped())):
            raise ctypes.WinError(ctypes.get_last_error())
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


class Turnstile(Protocol):
    """What a writer passes before it writes: a context that one writer of all processes is in at a time."""

    def __enter__(self) -> None:
        """Wait for the turn, however long it takes."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hand the turn on."""

    def close(self) -> None:
        """Let go of the lock file without handing a turn on: a forked child may do this."""


class FileTurnstile:
    """The turnstile of a database file: the lock file beside it is made once and never removed."""

    def __init__(self, path: str) -> None:
        self._file = _opened(path)

    def __enter__(self) -> None:
        _lock(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _unlock(self._file)

    def close(self) -> None:
        os.close(self._file)


def _opened(path: str) -> int:
    """Open a lock file; a new one is for those who may write to the database, because who reads it can stop them."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    with contextlib.suppress(FileNotFoundError):
        _let_writers_in(file, os.stat(path.removesuffix("-turn")))  # noqa: PTH116 - the path is text
    return file


def _let_writers_in(file: int, database: os.stat_result) -> None:
    """Give a lock file the owner and the rights to write of its database, as SQLite does with its log."""
    if sys.platform != "win32":
        writers = database.st_mode & 0o222
        os.fchmod(file, 0o600 | writers | writers << 1)  # guard: turn-mode
        if os.geteuid() == 0:
            os.fchown(file, database.st_uid, database.st_gid)


class OpenTurnstile:
    """The turnstile of a database in memory, which nobody else can write to."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def close(self) -> None:
        pass
