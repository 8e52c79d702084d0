"""Counts and histograms of what this process finished, gathered until the next write carries them."""

import time
from collections import Counter
from datetime import datetime, timedelta

from holdfast.job import JobState
from holdfast.rollup import Rollup, bucket
from holdfast.worker.run import Run

_GATHER_S = 1.0
LONG_WAIT_S = 1.0  # beyond it, a pause of the queue may be the reason, which is looked at before it is counted


class _Counts:
    def __init__(self) -> None:
        self.jobs = 0
        self.wait: Counter[int] = Counter()
        self.run: Counter[int] = Counter()
        self.long_waits: list[tuple[datetime, float]] = []  # when each was due, and for how long it waited


class Tally:
    """The roll-ups of one process: at most one row per second, queue, kind and state."""

    def __init__(self) -> None:
        self.resumed: dict[str, datetime] = {}  # when queues were last let go on after a pause
        self._counts: dict[tuple[str, str, JobState], _Counts] = {}
        self._due = time.monotonic() + _GATHER_S

    def count(self, run: Run, state: JobState) -> None:
        """Count the end of one claim."""
        job = run.job
        counts = self._counts.get((job.queue, job.kind, state))
        if counts is None:
            counts = self._counts[job.queue, job.kind, state] = _Counts()
        counts.jobs += 1
        if run.started_at is None:
            return
        counts.run[bucket(run_s(run) * 1_000)] += 1
        wait = waited_s(run)
        if wait is not None and wait > LONG_WAIT_S:
            counts.long_waits.append((job.run_at, wait))
        elif wait is not None:
            counts.wait[bucket(wait * 1_000)] += 1

    @property
    def is_due(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._counts) and time.monotonic() >= self._due

    def take(self, *, at_once: bool = False) -> list[Rollup]:
        """Take what was counted, once a second."""
        if not (self.is_due or (at_once and self._counts)):
            return []
        self._due = time.monotonic() + _GATHER_S
        counts, self._counts = self._counts, {}
        for (queue, _, _), found in counts.items():
            self._count_long_waits(queue, found)
        return [
            Rollup(queue, kind, state, found.jobs, dict(found.wait), dict(found.run))
            for (queue, kind, state), found in counts.items()
        ]

    def _count_long_waits(self, queue: str, found: _Counts) -> None:
        """Count waits from when the queue was let go on, if that was later: a pause is not waiting."""
        resumed_at = self.resumed.get(queue)
        for due_at, wait in found.long_waits:
            since = due_at if resumed_at is None else max(due_at, resumed_at)
            counted = (due_at + timedelta(seconds=wait) - since).total_seconds()
            found.wait[bucket(max(counted, 0) * 1_000)] += 1


def run_s(run: Run) -> float:
    """How long a handler ran, or has been running until now, if it has begun at all."""
    if run.started_at is None:
        return 0.0
    return (time.monotonic() if run.ended_at is None else run.ended_at) - run.started_at


def waited_s(run: Run) -> float | None:
    """How long a job waited from when it was due to the start of its handler; None when it has not begun."""
    if run.started_at is None or run.job.claimed_at is None:
        return None
    # Due and claimed by the store's clock, claimed and started by ours: no two clocks are compared.
    return max((run.job.claimed_at - run.job.run_at).total_seconds() + run.started_at - run.claimed_at, 0.0)
