"""How busy the machine is, all programs together."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")


@dataclass
class Busy:
    """How many cores were at work on average, all programs together; None where the system does not tell."""

    cores: float | None = None

    def __str__(self) -> str:
        return "unknown" if self.cores is None else f"{self.cores:.2f}"


@contextmanager
def busy() -> Iterator[Busy]:
    """Measure how busy the machine is while a block runs."""
    found = Busy()
    began, before = time.monotonic(), _worked_s()
    yield found
    after, seconds = _worked_s(), time.monotonic() - began
    if before is not None and after is not None:
        found.cores = (after - before) / seconds


def _worked_s() -> float | None:
    if not _STAT.exists():
        return None
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, _STAT.read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / float(os.sysconf("SC_CLK_TCK"))
