"""Datagrams between the processes of one database: a socket for each who listens, in the folder `<database>-workers`.

A datagram says "look now" and nothing else. It only shortens the wait until the next look, so whatever goes wrong here
is left alone. The name of a socket ends at 107 bytes and a path may be longer: sockets are reached through the number
of the open folder instead. Where that does not exist (only Linux has it) nobody has a socket, and everybody looks.
"""

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from holdfast import ownership

_READY = ".sock"
_BEING_MADE = ".new"
_HINT = b"!"
_LARGEST = 16
_HAS_SOCKETS = hasattr(socket, "AF_UNIX") and os.path.isdir("/proc/self/fd")  # noqa: PTH112 - one look, at import


class HintSocket:
    """The socket of one who listens; its file is there exactly as long as it is open."""

    def __init__(self, folder: str, name: str, receiver: socket.socket) -> None:
        self._folder = folder
        self._name = name
        self._receiver = receiver
        self._pid = os.getpid()

    @classmethod
    def bound(cls, database_path: str) -> "HintSocket | None":
        """Make a socket, and its folder if missing; None where that is not possible."""
        if not _HAS_SOCKETS:
            return None
        path = _folder(database_path)
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            ownership.make_private_folder(Path(path))
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return None
        try:
            receiver.settimeout(0)
            with _opened(path) as folder:
                receiver.bind(_reached(folder, name + _BEING_MADE))
                # Only now under the name that others send to: they would take it for a dead one until it is bound.
                os.rename(name + _BEING_MADE, name + _READY, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            receiver.close()
            return None
        return cls(path, name + _READY, receiver)

    def fileno(self) -> int:
        """What a selector waits for."""
        return self._receiver.fileno()

    def drain(self) -> None:
        """Take every datagram there is: however many came, they mean one look."""
        with contextlib.suppress(OSError):
            while True:
                self._receiver.recv(_LARGEST)

    def close(self) -> None:
        """Let go of the socket; in a forked child the file stays, for it is the parent's."""
        self._receiver.close()
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, self._name))  # noqa: PTH108, PTH118 - as above


def send_hints(database_path: str) -> None:
    """Send a datagram to each process that listens, and remove the sockets of those that are gone."""
    if not _HAS_SOCKETS:
        return
    # Without a folder of this user's own, other processes look by themselves.
    with contextlib.suppress(OSError), _opened(_folder(database_path)) as folder:
        names = [name for name in os.listdir(folder) if name.endswith(_READY)]  # noqa: PTH208 - pathlib takes no number
        if not names:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(0)
            for name in names:
                _send(sender, folder, name)


def _send(sender: socket.socket, folder: int, name: str) -> None:
    try:
        sender.sendto(_HINT, _reached(folder, name))
    except ConnectionRefusedError:  # its owner died without closing it
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
    except OSError:  # gone meanwhile, another user's, or full: who has not read the last hint will look anyway
        pass


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(folder).st_uid != os.geteuid():  # guard: hint-folder-owner
            raise PermissionError(path)
        yield folder
    finally:
        os.close(folder)


def _folder(database_path: str) -> str:
    return f"{database_path}-workers"


def _reached(folder: int, name: str) -> str:
    return f"/proc/self/fd/{folder}/{name}"
