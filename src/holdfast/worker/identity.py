"""Who a worker process is, so that a newcomer on the same host can tell whether it still lives."""

import functools
import os
import socket
from pathlib import Path

from holdfast.release import RELEASE
from holdfast.stores.values import WorkerProcess

_PROC = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/<pid>/stat, counted after the name in parentheses
_DEAD = ("Z", "X")


def describe(instance: str, pid: int, queues: tuple[str, ...], concurrency: int) -> WorkerProcess:
    """Describe a process of this host."""
    stat = _stat(pid)
    return WorkerProcess(
        instance=instance,
        host=socket.gethostname(),
        pid=pid,
        boot_id=boot_id(),
        pid_namespace=_pid_namespace(),
        process_start=None if stat is None else int(stat[_START]),
        version=RELEASE,
        queues=queues,
        concurrency=concurrency,
    )


def is_gone(info: WorkerProcess) -> bool:
    """Whether a worker's process has certainly ended: only where it could be seen if it had not."""
    if info.boot_id is None or info.boot_id != boot_id() or info.pid_namespace != _pid_namespace():
        return False
    if info.process_start is None:
        return False
    stat = _stat(info.pid)
    return stat is None or stat[_STATE] in _DEAD or int(stat[_START]) != info.process_start


@functools.cache
def boot_id() -> str | None:
    """The name of this run of the kernel, where the system tells it."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - it is a name, not a path
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """Read the state of a process; the name before it may hold anything, so reading starts after its end."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
