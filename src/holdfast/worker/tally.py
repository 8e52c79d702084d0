"""Counts and histograms of what this process finished, gathered until the next write carries them."""

import time
from collections import Counter

from holdfast.job import JobState
from holdfast.rollup import Rollup, bucket
from holdfast.worker.run import Run

_GATHER_S = 1.0


class _Counts:
    def __init__(self) -> None:
        self.jobs = 0
        self.wait: Counter[int] = Counter()
        self.run: Counter[int] = Counter()


class Tally:
    """The roll-ups of one process: at most one row per second, queue, kind and state."""

    def __init__(self) -> None:
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
        counts.run[bucket((time.monotonic() - run.started_at) * 1_000)] += 1
        if job.claimed_at is not None:
            # Due and claimed by the store's clock, claimed and started by ours: no two clocks are compared.
            wait = (job.claimed_at - job.run_at).total_seconds() + run.started_at - run.claimed_at
            counts.wait[bucket(max(wait, 0) * 1_000)] += 1

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
        return [
            Rollup(queue, kind, state, found.jobs, dict(found.wait), dict(found.run))
            for (queue, kind, state), found in counts.items()
        ]
