"""The whole worker is killed and started again on the same host: its jobs do not wait for the lease to end."""

import sys
import time

import pytest

from holdfast.job import JobState
from tests.faults.workers.looking import running
from tests.support.figures import show
from tests.support.oracle import Oracle, all_ended
from tests.support.place import Place
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

JOBS, JOB_MS = 6, 2_000
LEASE_S = 60  # an embedded worker has it anyway
EMBEDDED = (sys.executable, "-m", "tests.faults.workers.embedded")


@pytest.mark.parametrize("before", [(), EMBEDDED], ids=["supervised", "embedded"])
async def test_a_worker_that_starts_takes_over_from_the_dead_at_once(place: Place, before: tuple[str, ...]) -> None:
    options, env = ("--concurrency", "2"), {"CHAOS_CONCURRENCY": "2", "CHAOS_LEASE": str(LEASE_S)}
    group = place.start(*options, before=before, **env)
    ids = await place.enqueue("plain", "default", [f'{{"ms": {JOB_MS}}}'] * JOBS)
    await until(lambda: len(place.notes()) >= 6, "two have ended and two more run")
    assert len(running(place.notes())) == 2
    group.kill_all()
    killed_at = time.monotonic()
    (dead,) = await place.store.list_workers()
    place.start(*options, before=before, **env)
    jobs = await all_ended(place.store, ids)
    took = time.monotonic() - killed_at
    notes = place.notes()
    Oracle(jobs, notes, await place.effects()).check(ids)
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    first = min(note.at for note in notes if note.at > killed_at)
    show(f"began again {first - killed_at:.2f} s after the kill, all six done after {took:.2f} s")
    given_back = [attempt.ended_at for job in jobs.values() for attempt in job.attempts]
    assert max(given_back) < dead.lease_until, "they waited for the lease to end"
    assert sum(job.crashes for job in jobs.values()) == 2, "only what had begun is charged"
