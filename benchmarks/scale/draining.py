"""Filling a store with jobs and letting one worker process empty it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scale import children
from benchmarks.scale.busy import Busy, busy
from benchmarks.scale.once import require_empty, require_once
from benchmarks.scale.place import Place


@dataclass(frozen=True)
class Drained:
    """How one worker process emptied a store."""

    jobs: int
    seconds: float  # from the first job's run to the last one's
    cpu_s: float
    peak_mb: float
    busy: Busy
    times: list[float]

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds


@contextmanager
def new_ledger() -> Iterator[Path]:
    """Give the path of a ledger that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="holdfast-ledger-") as folder:
        yield Path(folder) / "ledger"


def enqueue(place: Place, jobs: int, way: str = "bulk") -> float:
    """Enqueue jobs from a process of its own; give the seconds that it took, without the start of the process."""
    with new_ledger() as ledger:
        env = place.environment(ledger)
        answer = children.run("benchmarks.scale.program", "enqueue", "--way", way, "--jobs", jobs, env=env)
    return float(answer["seconds"])


def drain(place: Place, jobs: int, concurrency: int) -> Drained:
    """Let a worker process run all that waits, and check that it did."""
    with new_ledger() as ledger:
        with busy() as found:
            answer = children.run("benchmarks.scale.drain", "--concurrency", concurrency, env=place.environment(ledger))
        times = require_once(ledger, jobs)
    require_empty(place)
    return Drained(jobs, times[-1] - times[0], answer["cpu_s"], answer["peak_mb"], found, times)
