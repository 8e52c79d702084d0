"""Rescue takes back every running job without a living worker, and counts crashes apart from attempts."""

from datetime import timedelta

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Rescued, Started, Verdict
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import (
    LEASE_MS,
    claim,
    claim_one,
    enqueue,
    enqueue_many,
    read,
    register,
    running,
    settle,
)
from tests.support.clock import Clock


async def lose_worker(store: Store, clock: Clock) -> Rescued:
    """Let every lease end, and sweep."""
    await clock.advance(milliseconds=LEASE_MS + 1)
    return await store.rescue_jobs(100)


@pytest.mark.guards("rescue-living")
async def test_a_living_worker_keeps_its_jobs(store: Store, clock: Clock) -> None:
    job = await running(store)
    assert await store.rescue_jobs(10) == Rescued(0, (), (), (), clock.now)
    await clock.advance(milliseconds=LEASE_MS)  # to the very end of the lease
    assert await store.rescue_jobs(10) == Rescued(0, (), (), (), clock.now)
    assert await read(store, job.id) == job


async def test_when_the_lease_has_ended_the_job_goes_back(store: Store, clock: Clock) -> None:
    job = await running(store)
    assert await lose_worker(store, clock) == Rescued(1, (job.id,), (), (), clock.now)
    waiting = await read(store, job.id)
    assert (waiting.state, waiting.worker, waiting.claimed_at) == (JobState.QUEUED, None, None)
    assert (waiting.claim, waiting.attempt, waiting.crashes) == (1, 0, 1)
    assert waiting.error_class == "WorkerLost"
    (entry,) = waiting.attempts
    assert (entry.claim, entry.outcome, entry.worker, entry.ended_at) == (1, "crash", job.worker, clock.now)
    assert await store.rescue_jobs(10) == Rescued(0, (), (), (), clock.now)


async def test_a_renewed_lease_is_no_end(store: Store, clock: Clock) -> None:
    worker = await register(store)
    await running(store, worker)
    await clock.advance(milliseconds=LEASE_MS - 1)
    await store.renew_workers([worker], LEASE_MS)
    assert await lose_half_a_lease(store, clock) == Rescued(0, (), (), (), clock.now)


async def lose_half_a_lease(store: Store, clock: Clock) -> Rescued:
    await clock.advance(milliseconds=LEASE_MS // 2)
    return await store.rescue_jobs(10)


async def test_an_expired_worker_may_renew_as_long_as_it_is_not_marked(store: Store, clock: Clock) -> None:
    worker = await register(store)
    job = await running(store, worker)
    await clock.advance(hours=1)
    assert (await store.renew_workers([worker], LEASE_MS)).alive == {worker}
    assert await store.rescue_jobs(10) == Rescued(0, (), (), (), clock.now)
    assert await read(store, job.id) == job


@pytest.mark.guards("dead-worker-renewal")
async def test_a_marked_worker_cannot_renew(store: Store, clock: Clock) -> None:
    worker = await register(store)
    assert (await lose_worker(store, clock)).workers == 1
    assert (await store.renew_workers([worker], LEASE_MS)).alive == frozenset()
    assert (await store.rescue_jobs(10)).workers == 0
    (row,) = await store.list_workers()
    assert row.dead_at == clock.now


async def test_jobs_of_a_worker_that_does_not_exist_go_back(store: Store, clock: Clock) -> None:
    # F4: a claim of a worker whose row is gone already; only direct SQL can make one here.
    job = await running(store)
    await raw.execute(store, "DELETE FROM holdfast.workers")
    assert await store.rescue_jobs(10) == Rescued(0, (job.id,), (), (), clock.now)
    assert (await read(store, job.id)).state is JobState.QUEUED


@pytest.mark.guards("rescue-before")
async def test_leases_that_ended_after_a_moment_are_left_alone(store: Store, clock: Clock) -> None:
    """Whoever sleeps between two looks passes the moment of the first: the others may have slept as well."""
    job = await running(store)
    first = (await store.rescue_jobs(10)).looked_at
    assert first == clock.now
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert await store.rescue_jobs(10, before=first) == Rescued(0, (), (), (), clock.now)
    assert (await read(store, job.id)).state is JobState.RUNNING
    assert await store.rescue_jobs(10, before=clock.now) == Rescued(1, (job.id,), (), (), clock.now)


@pytest.mark.guards("rescue-living")
async def test_only_the_jobs_of_the_dead_go_back(store: Store, clock: Clock) -> None:
    dead, alive = await register(store), await register(store, lease_ms=3_600_000)
    lost = await running(store, dead)
    kept = await running(store, alive)
    waiting = await enqueue(store)
    assert await lose_worker(store, clock) == Rescued(1, (lost.id,), (), (), clock.now)
    assert await read(store, kept.id) == kept
    assert (await read(store, waiting)).crashes == 0


async def test_a_rescued_job_keeps_its_place(store: Store, clock: Clock) -> None:
    ids = await enqueue_many(store, 3)
    await claim(store, await register(store), limit=2)
    await lose_worker(store, clock)
    assert [job.id for job in await claim(store, await register(store))] == ids


async def test_a_sweep_goes_no_further_than_its_limit(store: Store, clock: Clock) -> None:
    await enqueue_many(store, 5)
    await claim(store, await register(store))
    await clock.advance(milliseconds=LEASE_MS + 1)
    sizes = [len((await store.rescue_jobs(2)).requeued) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_what_ended_in_time_is_not_touched(store: Store, clock: Clock) -> None:
    job = await running(store)
    await settle(store, completed(job.id, job.claim))
    assert await lose_worker(store, clock) == Rescued(1, (), (), (), clock.now)
    assert (await read(store, job.id)).crashes == 0


# ---- crashes -------------------------------------------------------------------------------------------------------


async def crash_again(store: Store, clock: Clock) -> JobRow:
    """Claim the only job as soon as it may run, and let its worker die after it has begun."""
    await clock.advance(hours=1)
    await store.promote_jobs(10)
    job = await begun(store)
    await lose_worker(store, clock)
    return await read(store, job.id)


async def begun(store: Store) -> JobRow:
    """Claim the only job, and store that it begins."""
    job = await claim_one(store)
    assert await store.start_jobs([Started(job.id, job.claim, 0)]) == [Verdict.DONE]
    return job


async def test_the_first_crash_goes_back_at_once_the_second_waits_the_third_buries(store: Store, clock: Clock) -> None:
    await enqueue(store, max_crashes=3)
    first = await crash_again(store, clock)
    assert (first.state, first.crashes, first.attempt) == (JobState.QUEUED, 1, 0)
    second = await crash_again(store, clock)
    assert (second.state, second.crashes, second.attempt, second.position) == (JobState.SCHEDULED, 2, 0, None)
    assert timedelta(seconds=7.5) <= second.run_at - clock.now <= timedelta(seconds=12.5)
    third = await crash_again(store, clock)
    assert (third.state, third.crashes, third.attempt) == (JobState.FAILED, 3, 0)
    assert third.error_class == "WorkerLost"
    assert third.claim == 4  # counted up: the holder's late write is lost
    assert [entry.outcome for entry in third.attempts] == ["crash", "crash"]
    assert third.delete_at == clock.now + timedelta(days=30)


async def test_a_sweep_says_which_jobs_it_buried(store: Store, clock: Clock) -> None:
    await enqueue(store, max_crashes=2)
    await crash_again(store, clock)
    await clock.advance(hours=1)
    job = await begun(store)
    assert await lose_worker(store, clock) == Rescued(1, (), (job.id,), (), clock.now)


@pytest.mark.guards("last-crash")
@pytest.mark.parametrize("most", [1, 2, 4])
async def test_the_last_crash_of_those_that_a_job_may_have_fails_it(store: Store, clock: Clock, most: int) -> None:
    await enqueue(store, max_crashes=most)
    states = [(await crash_again(store, clock)).state for _ in range(most)]
    assert [state is JobState.FAILED for state in states] == [False] * (most - 1) + [True]


@pytest.mark.guards("unbegun-claim")
@pytest.mark.parametrize("most, crashes", [(1, 0), (3, 1), (3, 2)])
async def test_what_is_known_not_to_have_begun_is_not_charged(
    store: Store, clock: Clock, most: int, crashes: int
) -> None:
    """A worker has the start of such a job stored before it begins: without one it waited beside the culprit."""
    job_id = await enqueue(store, max_crashes=most)
    for _ in range(crashes):
        await crash_again(store, clock)
    await clock.advance(hours=1)
    await store.promote_jobs(10)
    before = await claim_one(store)
    assert await lose_worker(store, clock) == Rescued(1, (job_id,), (), (), clock.now)
    job = await read(store, job_id)
    assert (job.state, job.crashes, job.attempt) == (JobState.QUEUED, crashes, 0)
    assert job.attempts[-1].claim == before.claim
    assert job.attempts[-1].outcome == "interrupt"


@pytest.mark.parametrize("crashes, low, high", [(2, 7.5, 12.5), (3, 15, 25), (4, 30, 50), (12, 3_600, 3_600)])
async def test_the_wait_after_a_crash_doubles_up_to_an_hour(
    store: Store, clock: Clock, crashes: int, low: float, high: float
) -> None:
    job_id = await enqueue(store, max_crashes=100)
    await raw.execute(store, f"UPDATE holdfast.jobs SET crashes = {crashes - 1}")
    job = await crash_again(store, clock)
    assert (job.id, job.crashes) == (job_id, crashes)
    assert timedelta(seconds=low) <= job.run_at - clock.now <= timedelta(seconds=high)


async def test_crashes_do_not_use_up_attempts(store: Store, clock: Clock) -> None:
    await enqueue(store, max_attempts=1, max_crashes=5)
    for _ in range(3):
        job = await crash_again(store, clock)
        assert job.attempt == 0
    await clock.advance(hours=1)
    await store.promote_jobs(10)
    assert (await claim_one(store)).attempt == 1
