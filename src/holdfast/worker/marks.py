"""What a worker process has begun, in a small file that others can read while it runs and after its death.

The process itself marks each start before the handler runs, without a write to the store. Its supervisor marks the
last confirmed renewal in the same file. The process holds a lock on the file: when the lock can be taken, it is dead.
"""

import contextlib
import errno
import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from holdfast import ownership

if sys.platform != "win32":
    import fcntl

_HEADER = struct.Struct("=8sqqqqqqq")  # magic, entries, tick, renewed, attended, stepping, finished, acquitted
_MAGIC = b"hfmarks1"
_ENTRIES, _TICK, _RENEWED, _ATTENDED, _STEPPING, _FINISHED, _ACQUITTED = range(1, 8)  # places of 8 bytes each
_FIRST = 64
_ENTRY = struct.Struct("=qqqqqq")  # started, id, claim, deadline, way, pid
_FIRST_NUMBER, _ENTRY_NUMBERS = _FIRST // 8, _ENTRY.size // 8
_STARTED, _WAY, _PID = 0, 4, 5
UNMARKED = -1
_ENDING, _ASKED = 1, 2  # on purpose; to leave


class Way(IntEnum):
    """Where a handler runs."""

    LOOP = 0
    THREAD = 1
    PROCESS = 2
    ENDED = 3  # it does no more, but the store does not know its end yet
    BOOT = 4  # its code has not been called: it waits for the store, or for its process


class Begun(NamedTuple):
    """A handler that was started and whose end is not known to the store; times are monotonic nanoseconds."""

    started: int
    id: int
    claim: int
    deadline: int
    way: int
    pid: int


class Marks:
    """The marks of one process: written by itself, read by its supervisor and by newcomers."""

    def __init__(self, memory: mmap.mmap, entries: int, path: Path | None = None, lock: int | None = None) -> None:
        self.path = path
        self._memory = memory
        # One of them is written in a fraction of the time that `struct` takes. A file that was cut short ends anywhere.
        self._numbers = memoryview(memory)[: len(memory) // 8 * 8].cast("q")
        self._entries = entries
        self._lock = lock
        self._free = list(range(entries - 1, -1, -1))

    @classmethod
    def create(cls, path: Path | None, entries: int) -> "Marks":
        """Make the marks of this process; without a path no other process can read them.

        Raises PermissionError for a folder that is not this user's own.
        """
        size = _FIRST + entries * _ENTRY.size
        if path is None or sys.platform == "win32":  # where there is no supervisor and no newcomer that would look
            memory = mmap.mmap(-1, size)
            lock = path = None
        else:
            ownership.make_private_folder(path.parent)
            lock = ownership.create_file(path)
            fcntl.flock(lock, fcntl.LOCK_EX)
            _fill(lock, path, size)
            memory = mmap.mmap(lock, size)
        _HEADER.pack_into(memory, 0, _MAGIC, entries, 0, 0, 0, 0, 0, 0)
        return cls(memory, entries, path, lock)

    @classmethod
    def open(cls, path: Path) -> "Marks | None":
        """Open the marks of another process; None when there are none that can be read and believed."""
        try:
            with _opened(path) as file:
                memory = mmap.mmap(file, 0)
        except (OSError, ValueError):
            return None
        if len(memory) < _FIRST or memory[:8] != _MAGIC:
            return None
        (entries,) = struct.unpack_from("=q", memory, 8 * _ENTRIES)
        return cls(memory, min(entries, (len(memory) - _FIRST) // _ENTRY.size), path)

    # ---- written by the process ------------------------------------------------------------------------------------

    def start(self, job_id: int, claim: int, timeout_s: float | None, way: Way) -> int:
        """Mark that a handler begins; the answer names the mark (there is room for all, unless threads pile up)."""
        now = time.monotonic_ns()
        deadline = 0 if timeout_s is None else now + int(timeout_s * 1e9)
        if not self._free:
            return UNMARKED
        index = self._free.pop()
        at = _FIRST + index * _ENTRY.size
        # The start is written last: whoever sees it sees the rest.
        _ENTRY.pack_into(self._numbers, at, 0, job_id, claim, deadline, way, 0)
        self._numbers[at // 8] = now
        return index

    def set_process(self, index: int, pid: int) -> None:
        """Mark in which process a handler runs."""
        if index != UNMARKED:
            self._numbers[_place(index) + _PID] = pid

    def set_way(self, index: int, way: Way) -> None:
        """Mark where a handler runs now."""
        if index != UNMARKED:
            self._numbers[_place(index) + _WAY] = way

    def place_of(self, index: int) -> tuple[str, int] | None:
        """Where another process finds a mark, if it can."""
        return None if self.path is None or index == UNMARKED else (str(self.path), index)

    def end(self, index: int) -> None:
        """Take a mark away: the end of the job is known to the store."""
        if index == UNMARKED:
            return
        self._numbers[_place(index) + _STARTED] = 0
        self._free.append(index)

    def step(self, index: int) -> None:
        """Mark whose code the event loop runs at this moment; `UNMARKED` for nobody's."""
        self._numbers[_STEPPING] = index + 1

    def acquit(self) -> None:
        """Show that the process ends on purpose: no handler has to answer for it, whoever finds it first."""
        self._numbers[_ACQUITTED] = _ENDING

    def ask(self) -> None:
        """Show that the worker was asked to leave: a kill that follows is no fault of its handlers."""
        self._numbers[_ACQUITTED] = self._numbers[_ACQUITTED] or _ASKED

    def tick(self) -> None:
        """Show that the event loop goes round."""
        self._numbers[_TICK] = time.monotonic_ns()

    def count_finished(self, jobs: int) -> None:
        """Show that work gets done."""
        self._numbers[_FINISHED] += jobs

    # ---- written by the supervisor ---------------------------------------------------------------------------------

    def renew(self, moment: int) -> None:
        """Show when the last renewal that the store confirmed was sent."""
        self._numbers[_RENEWED] = moment

    def attend(self) -> None:
        """Show that the supervisor goes round."""
        self._numbers[_ATTENDED] = time.monotonic_ns()

    # ---- read ------------------------------------------------------------------------------------------------------

    @property
    def ticked(self) -> int:
        """When the event loop last went round."""
        return self._numbers[_TICK]

    @property
    def renewed(self) -> int:
        """When the last confirmed renewal was sent."""
        return self._numbers[_RENEWED]

    @property
    def attended(self) -> int:
        """When the supervisor last went round."""
        return self._numbers[_ATTENDED]

    @property
    def finished(self) -> int:
        """How many jobs this process has finished."""
        return self._numbers[_FINISHED]

    def begun(self) -> Iterator[Begun]:
        """Go through the handlers that were started."""
        for index in range(self._entries):
            entry = Begun(*_ENTRY.unpack_from(self._memory, _FIRST + index * _ENTRY.size))
            if entry.started:
                yield entry

    def suspects(self, *, with_supervisor: bool) -> list[Begun]:
        """List the handlers that may have brought the process down, or all of its instance with the supervisor.

        Only one coroutine runs at a time, and it is marked; threads run any time. When no handler's code was being run
        (a task that a handler left behind, a kill from outside), it may have been any of those that had begun. One in a
        process of its own does not bring its worker down, unless it takes everything along.
        """
        if self._numbers[_ACQUITTED] == _ENDING:  # guard: leaving-acquittal
            return []
        if self._numbers[_ACQUITTED] == _ASKED and with_supervisor:  # guard: asked-acquittal
            return []
        # guard: boot-mark, without: begun = [entry for entry in self.begun() if entry.way != Way.ENDED]
        begun = [entry for entry in self.begun() if entry.way not in (Way.ENDED, Way.BOOT)]
        stepping = self._numbers[_STEPPING]
        at = _FIRST + (stepping - 1) * _ENTRY.size
        current = Begun(*_ENTRY.unpack_from(self._memory, at)) if 0 < stepping <= self._entries else None
        # guard: crash-suspects, without: found = begun
        found = [entry for entry in begun if entry.way == Way.THREAD or entry == current]
        if not found:
            return begun
        if with_supervisor:  # guard: process-suspects
            found += [entry for entry in begun if entry.way == Way.PROCESS and entry != current]
        return found

    def close(self) -> None:
        """Let go of the file; the marks of this process itself are removed with it."""
        if not self._memory.closed:
            # A handler that outlives its worker takes its steps where nobody sees them.
            self._numbers = memoryview(bytearray(len(self._memory) // 8 * 8)).cast("q")
            with contextlib.suppress(BufferError):  # a thread is just marking something: then it goes with the view
                self._memory.close()
        if self._lock is not None:
            self.remove()
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Remove the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def begin_at(place: tuple[str, int]) -> None:
    """Mark, from the process of a handler, that the handler begins there."""
    found = Marks.open(Path(place[0]))
    if found is not None:
        found.set_way(place[1], Way.PROCESS)
        found.close()


def is_abandoned(path: Path) -> bool:
    """Whether the process that made these marks is dead: then its lock can be taken."""
    if sys.platform == "win32":
        return False
    try:
        with _opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether the process that made these marks lives."""
    return path.exists() and not is_abandoned(path)


def folder_beside(database: str | None) -> Path:
    """Where the marks of a store's workers lie: beside a SQLite file, else in a folder of this user.

    That is in the user's runtime directory, where there is one, else in the temporary folder, which others share.
    """
    if database is not None:
        return Path(f"{os.path.realpath(database)}-workers")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_absolute() and ownership.is_private_folder(Path(runtime)):
        return Path(runtime, "holdfast")
    user = "" if sys.platform == "win32" else f"-{os.geteuid()}"
    return Path(tempfile.gettempdir()) / f"holdfast{user}"


def why_unusable(folder: Path, error: OSError) -> str:
    """Say that there can be no marks in a folder, and what to do."""
    message = f"the folder {folder}, in which workers mark what they begin, cannot be used: {error}; remove what is"
    message += " there, let this user write around it, or choose another place: by the store's path on SQLite, by"
    return f"{message} TMPDIR on PostgreSQL"


def file_of(folder: Path, instance: str, pid: int) -> Path:
    """The marks of one process of an instance; its supervisor, who has nothing to mark but that it lives, is 0."""
    return folder / f"{instance}-{pid}.marks"


def sweep(folder: Path, older_than_s: float = 86_400) -> None:
    """Remove files that no process came back for."""
    if not ownership.is_private_folder(folder):
        return
    with contextlib.suppress(OSError):
        for path in folder.glob("*.marks"):
            if time.time() - path.lstat().st_mtime > older_than_s and is_abandoned(path):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file of marks of this user, in a folder of this user that no other may enter."""
    if not ownership.is_private_folder(path.parent):  # guard: marks-owner
        raise PermissionError(str(path))
    file = ownership.open_file(path)
    try:
        yield file
    finally:
        os.close(file)


def _fill(file: int, path: Path, size: int) -> None:
    """Give a file its size and the room for it: a mark that finds the disk full would kill the process (SIGBUS)."""
    if os.write(file, bytes(size)) < size:
        path.unlink()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _place(index: int) -> int:
    return _FIRST_NUMBER + index * _ENTRY_NUMBERS
