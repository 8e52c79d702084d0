"""What the tests of leaving and of deploys share: payloads, and what is seen of jobs and workers afterwards."""

import signal
import time
from collections.abc import Iterable, Sequence

from holdfast.job import JobRow, JobState
from holdfast.stores.values import JobFilter
from tests.support.groups import Group
from tests.support.moments import MomentsFile
from tests.support.oracle import Note
from tests.support.place import Place

CHARGED = {"retry", "crash", "fail"}


def plain(*ms: float) -> list[str]:
    return [f'{{"ms": {round(one)}}}' for one in ms]


def begun(notes: Sequence[Note]) -> list[Note]:
    return [note for note in notes if note.what == "begin"]


def outcomes(job: JobRow) -> set[str]:
    """How the claims of a job ended before its last one."""
    return {attempt.outcome for attempt in job.attempts}


def charged(jobs: Iterable[JobRow]) -> list[tuple[JobState, int, int, set[str]]]:
    """The jobs that needed more than one attempt, however often they were given back, or did not complete."""
    return [
        (job.state, job.attempt, job.crashes, outcomes(job))
        for job in jobs
        if job.state is not JobState.COMPLETED or job.attempt > 1 or job.crashes or outcomes(job) & CHARGED
    ]


async def sent_away(group: Group, number: int = signal.SIGTERM) -> tuple[int, float]:
    """Signal a worker; its exit code, and how many seconds after the signal its process was gone."""
    sent_at = time.monotonic()
    group.signal(number)
    code = await group.ended()
    return code, time.monotonic() - sent_at


def begun_after_leave(found: MomentsFile) -> list[int]:
    """Give the jobs that a worker claimed when it was leaving already, and began all the same."""
    late: list[int] = []
    for drained in found.read("drain_begun"):
        claims = [claim for claim in found.read("claimed", worker=drained["worker"]) if claim["at"] > drained["at"]]
        assert len(claims) <= 1, claims  # the call that was under way
        late += [job for claim in claims for job in claim["jobs"] if found.read("begun", pid=claim["pid"], job=job)]
    return late


async def held(place: Place) -> int:
    """How many jobs are held, and how many workers are alive in the store."""
    page = await place.store.list_jobs(JobFilter(states=(JobState.RUNNING,)), limit=100)
    return len(page.jobs) + len([row for row in await place.store.list_workers() if row.dead_at is None])
