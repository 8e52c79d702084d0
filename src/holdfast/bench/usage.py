"""What a process has used: processor time and memory."""

import asyncio
import os
import re
import sys
import time
from pathlib import Path

_MEGABYTE = 1_000_000
_TIME = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)")


async def cpu_s(pid: int) -> float:
    """Tell how many seconds a process has run on a processor."""
    if sys.platform == "linux":
        # The clock of another process, numbered as the kernel does; /proc counts in hundredths of a second, too coarse
        # for a process that sleeps.
        return time.clock_gettime(~pid << 3 | 2)
    return read_time(await _ps(pid, "time"))


async def resident_mb(pid: int) -> float:
    """Tell how much memory a process has in use."""
    if sys.platform == "linux":
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])  # noqa: ASYNC240 - no disk
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE
    return int(await _ps(pid, "rss")) * 1_024 / _MEGABYTE


def read_time(text: str) -> float:
    """Read a time as `ps` writes it: [[days-]hours:]minutes:seconds."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        message = f"expected a time like 1:02.34 from ps, got {text!r}"
        raise ValueError(message)
    days, hours, minutes = (int(part or 0) for part in found.groups()[:3])
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(found[4])


async def _ps(pid: int, field: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "ps", "-o", f"{field}=", "-p", str(pid), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return said.decode()
