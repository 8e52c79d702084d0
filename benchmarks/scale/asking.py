"""Claims as a worker makes them: every priority of its queue, and a bound per lane that holds for a second."""

import itertools
import time
from collections.abc import Iterable

from holdfast.job import JobRow
from holdfast.names import PRIORITIES
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import Claim, Lane, WorkerProcess

_BOUND_S = 1.0
_LEASE_MS = 3_600_000


class Asker:
    """The claims of one worker."""

    def __init__(self, worker: int, queue: str = "default") -> None:
        self._worker = worker
        self._queue = queue
        self._batches = itertools.count(1)
        self._bounds: dict[int, int] = {}
        self._bounds_until = 0.0

    def claim(self, limit: int) -> Claim:
        """Describe the next claim; the first of each second starts at the beginning of the lanes."""
        now = time.monotonic()
        if now >= self._bounds_until:
            self._bounds.clear()
            self._bounds_until = now + _BOUND_S
        lanes = (Lane(self._queue, priority, limit, self._bounds.get(priority, 0)) for priority in PRIORITIES)
        return Claim(self._worker, next(self._batches), limit, tuple(lanes))

    def took(self, jobs: Iterable[JobRow]) -> None:
        """Remember how far the lanes are emptied."""
        for job in jobs:
            self._bounds[job.priority] = max(self._bounds.get(job.priority, 0), job.position or 0)

    def look_again(self) -> None:
        """Let the next claim start at the beginning."""
        self._bounds_until = 0.0


async def enter(store: LeaseStore) -> Asker:
    """Enter a worker that outlives the run."""
    return Asker(await store.register_worker(WorkerProcess("scale", "localhost", 1), _LEASE_MS))


def starts_at_beginning(claim: Claim) -> bool:
    """Whether no bound spares the claim what lies before it."""
    return not any(lane.after for lane in claim.lanes)
