"""How much memory a process has at this moment."""

import mmap
import os


def resident_bytes(pid: int) -> int | None:
    """Tell the bytes of memory that a process has, without what it has started; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - read five times a second
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return None


def own_bytes() -> int | None:
    """Tell the bytes of memory that this process has."""
    return resident_bytes(os.getpid())
