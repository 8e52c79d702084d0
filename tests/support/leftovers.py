"""What a run of the tests leaves behind, however it ends: processes, temporary files and a user are gone afterwards.

Another process, which is this file run as a program, waits for the end of each test process. It then ends every process
that has the mark of that one in its environment, and for the process that began the run removes the folder for
temporary files, and the user that PostgreSQL needed.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

POSTGRES_USER = "pgserver"  # which the wheel makes when it is started by root
_MARK = "HOLDFAST_TEST_PROCESS"
_MADE_USER = "made-a-user"  # a file in the folder for temporary files
_USERS = Path("/etc/passwd")
_FAREWELL_S = 5.0
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 * 1024**3
_PAUSE_S = 0.05


def watch() -> None:
    """Let nothing be left of this process; the first of a run gives it a folder for temporary files, too."""
    folder = ""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="hf-", dir=_quick_folder())
        tempfile.tempdir = None  # so that it is read again
        os.environ.pop("XDG_RUNTIME_DIR", None)  # marks of workers belong into that folder, too
    environment = {name: value for name, value in os.environ.items() if name != _MARK}
    os.environ[_MARK] = mark = secrets.token_hex(16)
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark, folder],
        env=environment,
        stdin=subprocess.PIPE,
        start_new_session=True,  # it survives Ctrl-C
    )
    owner = os.getpid()

    def leave() -> None:
        if os.getpid() == owner:  # a fork runs this as well
            watcher.communicate()

    atexit.register(leave)


def _quick_folder() -> Path | None:
    """Find a folder in memory: there no commit of a test waits for a disk."""
    is_there = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    return _MEMORY if is_there and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES else None


@contextlib.contextmanager
def user_made() -> Iterator[None]:
    """Remember whether the block makes the user, one process at a time."""
    with _USERS.open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        is_missing = os.geteuid() == 0 and not _has_user()
        yield
        if is_missing and _has_user():
            Path(tempfile.gettempdir(), _MADE_USER).touch()


def _has_user() -> bool:
    try:
        pwd.getpwnam(POSTGRES_USER)
    except KeyError:
        return False
    return True


# ---- the other process -----------------------------------------------------------------------------------------------


def main(parent: int, mark: str, folder: str) -> None:
    """Wait until the test process has ended, then clean up behind it."""
    ends = [sys.stdin.fileno()]
    with contextlib.suppress(OSError, AttributeError):  # it is over already, or this is not Linux
        ends.append(os.pidfd_open(parent))  # a fork of it may hold the other end of the pipe
    select.select(ends, (), ())
    deadline = time.monotonic() + _FAREWELL_S
    number = signal.SIGQUIT  # to which PostgreSQL ends at once and cleans up behind itself
    while found := _marked(mark):
        for pid in found:
            for each in (number, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, each)
        time.sleep(_PAUSE_S)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
    if folder:
        _clean_up(Path(folder))


def _marked(mark: str) -> list[int]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def _clean_up(folder: Path) -> None:
    is_user_made = (folder / _MADE_USER).exists()
    deadline = time.monotonic() + _FAREWELL_S
    while folder.exists() and time.monotonic() < deadline:  # servers of other test processes may just be ending
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_PAUSE_S)
    if is_user_made:
        with _USERS.open("rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            # It is refused while another run has a server.
            subprocess.run(["userdel", POSTGRES_USER], check=False, capture_output=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
