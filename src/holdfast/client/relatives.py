"""The jobs that came of another one: what its handler enqueued, and its changed copies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.job import JobState
from holdfast.resources.job import Job, JobPage

MOST = 20
"""How many are read of each relation."""


@dataclass(frozen=True)
class Relatives:
    """The newest of them, and whether there are more."""

    jobs: Sequence[Job]
    has_more: bool

    @property
    def summary(self) -> str:
        """Say how many there are, and how they stand: `3 (2 completed, 1 running)`."""
        states = Counter(job.state for job in self.jobs)
        parts = [f"{states[state]} {state.value.replace('_', ' ')}" for state in JobState if states[state]]
        if self.has_more:
            return f"{len(self.jobs)}+ (of the newest: {', '.join(parts)})"
        return f"{len(self.jobs)} ({', '.join(parts)})"


def relatives(page: JobPage) -> Relatives:
    """Take what a search has found for the newest jobs of a relation."""
    return Relatives(page.jobs, page.next is not None)
