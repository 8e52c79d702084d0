"""Handlers that let nothing else run: not taken away while their supervisor lives, ended in time, neighbours freed."""

import sys
import time
from typing import NamedTuple

import msgspec
import pytest

from holdfast.job import JobRow, JobState
from tests.faults.workers.looking import held_for
from tests.support.figures import show
from tests.support.oracle import Oracle, all_ended
from tests.support.pace import every, lasts
from tests.support.place import Place
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

LEASE_S = size(2, 4)  # of which a busy machine may well take a second without any harm
LEASES = 2  # that a hog outlives
TIMEOUT_S = LEASES * LEASE_S + 1
KILL_GRACE_S = 1
ELSEWHERE_S = 3.0  # from when another worker is there, on a machine that does nothing else
RETURNED_S = 5.0  # after which nothing is kept that only waits in a process
HOLED = (sys.executable, "-m", "tests.faults.workers.holes")


class Hogged(NamedTuple):
    """A hog: when it began, its neighbours, those held beside it, and since when another worker is there."""

    job: JobRow
    began: float
    ids: list[int]
    held: list[int]
    there_at: float


async def hogged(place: Place, way: str, holes: str = "") -> Hogged:
    """Let a hog come into a busy process, and another worker beside it."""
    env = {"CHAOS_LEASE": str(LEASE_S), "CHAOS_KILL_GRACE": str(KILL_GRACE_S)}
    ids = await place.enqueue("plain", "default", ['{"ms": 20}'] * 60)
    (made,) = await place.make_jobs("hog", "default", [f'{{"way": "{way}"}}'], timeout_ms=TIMEOUT_S * 1_000)
    await place.store.insert_jobs([msgspec.structs.replace(made, max_attempts=1)])
    hog = made.id
    ids += await place.enqueue("plain", "default", ['{"ms": 20}'] * 60)
    place.start("--concurrency", "4", before=HOLED if holes else (), CHAOS_HOLES=holes, **env)  # they wait behind it
    await until(lambda: any(note.job == hog for note in place.notes()), "the hog begins")
    (began,) = [note.at for note in place.notes() if note.job == hog]
    (job,) = await place.store.get_jobs([hog])
    others = [job for job in await place.store.get_jobs(ids) if job.state is JobState.RUNNING]
    begun = {note.job for note in place.notes()}
    place.start("--concurrency", "4", **env)
    await place.arrived(2)
    return Hogged(job, began, ids, [other.id for other in others if other.id not in begun], time.monotonic())


@pytest.mark.parametrize(
    "way", [pytest.param("gil", marks=pytest.mark.chaos), "loop", pytest.param("wait", marks=pytest.mark.chaos)]
)
@pytest.mark.guards("unstarted-return")
async def test_a_hog_keeps_its_claim_and_nobody_elses(place: Place, way: str) -> None:
    job, began, ids, held, there_at = await hogged(place, way)
    jobs = await all_ended(place.store, ids)
    others_done = time.monotonic()
    async for _ in every(0.1, lambda: time.monotonic() < began + LEASES * LEASE_S):  # not rescued while it may run
        (now,) = await place.store.get_jobs([job.id])
        assert (now.state, now.claim) == (JobState.RUNNING, job.claim), now
    ended = await all_ended(place.store, [job.id], TIMEOUT_S + KILL_GRACE_S + 10)
    notes = place.notes()
    oracle = Oracle(jobs | ended, notes, await place.effects())
    oracle.check([*ids, job.id])
    assert oracle.lease_ends == 0, "taken away from a supervisor that lives"
    hog = ended[job.id]
    assert (hog.state, hog.attempt, hog.crashes, hog.error_class) == (JobState.FAILED, 1, 0, "holdfast.errors.TimedOut")
    assert hog.finished_at is not None
    began_at = began + time.time() - time.monotonic()
    took = hog.finished_at.timestamp() - began_at
    assert took < TIMEOUT_S + KILL_GRACE_S + 3, "not ended at its timeout and grace"
    charged = [other for other in jobs.values() if (other.attempt, other.crashes) != (1, 0)]
    assert not charged, f"charged for the hog: {charged[:3]}"
    assert all(other.state is JobState.COMPLETED for other in jobs.values())
    waits = [min(note.at for note in notes if note.job == other and note.at > began) - there_at for other in held]
    if way != "wait":  # beside which everything else goes on
        assert held, "nothing was claimed beside the hog: the fault did not happen"
        returned = [attempt.ended_at for other in held for attempt in jobs[other].attempts[:1]]
        assert len(returned) == len(held)
        assert max(returned) < hog.finished_at, "kept until the hog had ended"
        kept = max(returned).timestamp() - began_at  # by the store's clock
        assert kept < RETURNED_S, "kept too long beside a hog"
        assert not CHAOS or max(waits) < ELSEWHERE_S
        assert "worker:unresponsive" in place.groups[0].said()
    show(f"{way}: {len(held)} claimed beside it, begun elsewhere after {max(waits, default=0):.1f} s at most")
    show(f"all others done after {others_done - began:.1f} s, the hog ended after {took:.1f} s")


@pytest.mark.chaos
async def test_a_buffer_kept_by_a_hog_is_noticed(sqlite_place: Place) -> None:
    _, _, ids, held, there_at = await hogged(sqlite_place, "loop", "keeping")
    assert held
    await lasts(max(0.0, there_at + ELSEWHERE_S - time.monotonic()))
    late = [job.id for job in await sqlite_place.store.get_jobs(held) if job.id in ids and not job.is_finished]
    assert late, "the hole is not there"


async def test_what_is_claimed_ahead_of_full_slots_starts_elsewhere(place: Place) -> None:
    """Every slot of a process waits for ever while its loop goes round: nothing may be kept waiting behind them."""
    ids = await place.enqueue("plain", "default", ['{"ms": 20}'] * 40)
    hogs = await place.enqueue("hog", "default", ['{"way": "wait"}'] * 2)
    ids += await place.enqueue("plain", "default", ['{"ms": 20}'] * 40)
    place.start("--concurrency", "2")
    await until(lambda: set(hogs) <= {note.job for note in place.notes()}, "the hogs begin")
    jobs = await place.store.get_jobs(ids)
    held = [job.id for job in jobs if job.state is JobState.RUNNING and job.started_at is None]
    place.start("--concurrency", "2")
    await place.arrived(2)
    began = time.monotonic()
    found = await all_ended(place.store, ids)
    took = time.monotonic() - began
    show(f"{len(held)} claimed ahead, all done {took:.1f} s after there was another worker")
    assert held, "nothing was claimed ahead: the fault did not happen"
    assert {job.state for job in await place.store.get_jobs(hogs)} == {JobState.RUNNING}, "not beside them"
    kept = held_for(found.values())
    assert max(kept) < RETURNED_S, "kept too long behind full slots"
    assert not CHAOS or took < ELSEWHERE_S
    assert not any(job.crashes or job.attempt > 1 for job in found.values())
