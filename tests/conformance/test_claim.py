"""A claim takes what may run now, in the order of the lanes, and counts."""

import pytest

from holdfast.errors import WorkerLost
from holdfast.job import JobRow, JobState
from holdfast.stores.store import Store
from holdfast.transitions import completed, interrupted
from tests.support.builders import (
    LEASE_MS,
    cancel,
    claim,
    claim_of,
    claim_one,
    enqueue,
    enqueue_many,
    finished,
    lane,
    read,
    register,
    running,
    settle,
)
from tests.support.clock import Clock


def ids_of(jobs: list[JobRow]) -> list[int]:
    return [job.id for job in jobs]


async def test_a_claim_makes_the_job_running_and_ours(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, payload='{"a": 1}', tags={"t": "v"}, key="k", unique="u")
    worker = await register(store)
    await clock.advance(seconds=5)
    request = claim_of(worker)
    (job,) = await store.claim_jobs(request)
    assert job.state is JobState.RUNNING
    assert (job.id, job.claim, job.attempt, job.life) == (job_id, 1, 1, 1)
    assert (job.worker, job.claim_batch, job.claimed_at, job.started_at) == (worker, request.batch, clock.now, None)
    assert (job.payload, job.tags, job.idempotency_key, job.unique_key) == ({"a": 1}, {"t": "v"}, "k", "u")
    assert await read(store, job_id) == job


async def test_no_job_is_taken_twice(store: Store) -> None:
    ids = await enqueue_many(store, 10)
    one, other = await register(store), await register(store)
    first = await claim(store, one, limit=4)
    second = await claim(store, other)
    assert ids_of(first) + ids_of(second) == ids
    assert await claim(store, one) == []


async def test_lanes_are_read_in_the_order_given(store: Store) -> None:
    low = await enqueue(store, priority=9)
    high = await enqueue(store, priority=0)
    other = await enqueue(store, queue="other", priority=5)
    worker = await register(store)
    taken = await claim(store, worker, lane("other", 5), lane("default", 0), lane("default", 9))
    assert ids_of(taken) == [other, high, low]


async def test_within_a_lane_the_first_come_goes_first(store: Store) -> None:
    ids = [*await enqueue_many(store, 3), await enqueue(store), *await enqueue_many(store, 2)]
    assert ids_of(await claim(store, await register(store))) == ids


async def test_only_the_lanes_asked_for_are_read(store: Store) -> None:
    await enqueue(store, queue="other")
    await enqueue(store, priority=4)
    assert await claim(store, await register(store), lane("default", 5)) == []


async def test_a_lane_gives_no_more_than_its_limit(store: Store) -> None:
    first, second, _third = await enqueue_many(store, 3, priority=0)
    other = await enqueue(store, priority=1)
    taken = await claim(store, await register(store), lane(priority=0, limit=2), lane(priority=1, limit=2))
    assert ids_of(taken) == [first, second, other]


async def test_all_lanes_together_give_no_more_than_the_limit(store: Store) -> None:
    first, second = await enqueue_many(store, 2, priority=0)
    other, _left = await enqueue_many(store, 2, priority=1)
    worker = await register(store)
    assert ids_of(await claim(store, worker, lane(priority=0), lane(priority=1), limit=3)) == [first, second, other]
    assert len(await claim(store, worker, lane(priority=0), lane(priority=1), limit=3)) == 1


async def test_a_limit_of_nothing_takes_nothing(store: Store) -> None:
    await enqueue(store)
    worker = await register(store)
    assert await claim(store, worker, limit=0) == []
    assert await claim(store, worker, lane(limit=0)) == []
    assert await store.claim_jobs(claim_of(worker, lane("empty"))) == []


async def test_a_lower_bound_leaves_out_what_lies_before_it(store: Store) -> None:
    ids = await enqueue_many(store, 4)
    second = (await read(store, ids[1])).position or 0
    worker = await register(store)
    assert ids_of(await claim(store, worker, lane(after=second))) == ids[2:]
    assert ids_of(await claim(store, worker, lane(after=0))) == ids[:2]


async def test_what_waits_for_its_time_or_has_ended_is_not_taken(store: Store) -> None:
    await enqueue(store, delay_ms=60_000)
    await finished(store, JobState.COMPLETED)
    await finished(store, JobState.CANCELLED)
    await running(store)
    assert await claim(store, await register(store)) == []


async def test_a_paused_queue_gives_nothing_and_holds_nobody_else_up(store: Store) -> None:
    paused = await enqueue(store, queue="paused")
    open_id = await enqueue(store, queue="open")
    lanes = (lane("paused"), lane("open"))
    await store.pause_queue("paused", actor=None, reason=None)
    worker = await register(store)
    assert ids_of(await claim(store, worker, *lanes)) == [open_id]
    await store.resume_queue("paused")
    assert ids_of(await claim(store, worker, *lanes)) == [paused]


async def test_attempts_are_counted_by_the_claim_and_claims_never_fall(store: Store) -> None:
    job = await running(store)
    assert (job.attempt, job.claim) == (1, 1)
    await settle(store, interrupted(job.id, job.claim))
    assert (await read(store, job.id)).attempt == 0
    again = await claim_one(store)
    assert (again.attempt, again.claim) == (1, 2)


# ---- workers -------------------------------------------------------------------------------------------------------


@pytest.mark.guards("living-worker")
async def test_a_worker_that_never_entered_gets_nothing(store: Store) -> None:
    job_id = await enqueue(store)
    with pytest.raises(WorkerLost):
        await claim(store, 4_711)
    with pytest.raises(WorkerLost):
        await store.claim_jobs_by_id(claim_of(4_711), [job_id])
    assert (await read(store, job_id)).claim == 0


@pytest.mark.guards("living-worker")
async def test_a_worker_declared_dead_gets_nothing(store: Store, clock: Clock) -> None:
    worker = await register(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert (await store.rescue_jobs(10)).workers == 1
    job_id = await enqueue(store)
    with pytest.raises(WorkerLost):
        await claim(store, worker)
    with pytest.raises(WorkerLost):
        await store.claim_jobs_by_id(claim_of(worker), [job_id])
    assert (await read(store, job_id)).state is JobState.QUEUED


async def test_a_retired_worker_gets_nothing(store: Store) -> None:
    worker = await register(store)
    await store.retire_worker(worker)
    with pytest.raises(WorkerLost):
        await claim(store, worker)


async def test_an_expired_worker_that_nobody_declared_dead_may_still_claim(store: Store, clock: Clock) -> None:
    worker = await register(store)
    job_id = await enqueue(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert ids_of(await claim(store, worker)) == [job_id]


# ---- by ids --------------------------------------------------------------------------------------------------------


async def test_named_jobs_are_taken_in_the_order_named(store: Store, clock: Clock) -> None:
    ids = await enqueue_many(store, 3)
    other = await enqueue(store, queue="other", priority=0)
    worker = await register(store)
    asked = [ids[2], other, ids[0]]
    request = claim_of(worker)
    taken = await store.claim_jobs_by_id(request, asked)
    assert ids_of(taken) == asked
    assert {(job.claim, job.attempt, job.worker, job.claim_batch) for job in taken} == {(1, 1, worker, request.batch)}
    assert {job.claimed_at for job in taken} == {clock.now}


async def test_no_more_named_jobs_are_taken_than_the_limit(store: Store) -> None:
    ids = await enqueue_many(store, 3)
    taken = await store.claim_jobs_by_id(claim_of(await register(store), limit=2), ids)
    assert ids_of(taken) == ids[:2]


async def test_a_job_named_twice_is_taken_once(store: Store) -> None:
    job_id = await enqueue(store)
    taken = await store.claim_jobs_by_id(claim_of(await register(store)), [job_id, job_id])
    assert [(job.id, job.claim) for job in taken] == [(job_id, 1)]


async def test_named_jobs_pass_the_same_gates(store: Store) -> None:
    scheduled = await enqueue(store, delay_ms=60_000)
    taken = await running(store)
    ended = await finished(store, JobState.FAILED)
    paused = await enqueue(store, queue="paused")
    await store.pause_queue("paused", actor=None, reason=None)
    (unknown,) = await store.take_ids(1)
    free = await enqueue(store)
    asked = [scheduled, taken.id, ended.id, paused, unknown, free]
    assert ids_of(await store.claim_jobs_by_id(claim_of(await register(store)), asked)) == [free]
    assert await read(store, taken.id) == taken


# ---- give back -----------------------------------------------------------------------------------------------------


@pytest.mark.guards("lost-batch")
async def test_a_batch_whose_reply_was_lost_is_given_back_whole_and_uncharged(store: Store) -> None:
    ids = await enqueue_many(store, 4)
    worker = await register(store)
    known = await store.claim_jobs(claim_of(worker, limit=1))
    lost = claim_of(worker, limit=2)
    await store.claim_jobs(lost)
    assert await store.give_back_batch(worker, lost.batch) == 2
    for job_id in ids[1:3]:
        job = await read(store, job_id)
        assert (job.state, job.attempt, job.crashes) == (JobState.QUEUED, 0, 0)
        assert (job.worker, job.claim_batch, job.claimed_at) == (None, None, None)
    assert (await read(store, ids[0])) == known[0]


async def test_a_batch_given_back_keeps_its_place(store: Store) -> None:
    ids = await enqueue_many(store, 3)
    worker = await register(store)
    lost = claim_of(worker, limit=2)
    await store.claim_jobs(lost)
    await store.give_back_batch(worker, lost.batch)
    taken = await claim(store, worker)
    assert ids_of(taken) == ids
    assert [job.claim for job in taken] == [2, 2, 1]


async def test_giving_back_twice_or_what_never_arrived_gives_back_nothing(store: Store) -> None:
    await enqueue(store)
    worker, other = await register(store), await register(store)
    lost = claim_of(worker)
    assert await store.give_back_batch(worker, lost.batch) == 0
    await store.claim_jobs(lost)
    assert await store.give_back_batch(other, lost.batch) == 0
    assert await store.give_back_batch(worker, lost.batch) == 1
    assert await store.give_back_batch(worker, lost.batch) == 0


async def test_what_was_finished_of_a_batch_is_not_given_back(store: Store) -> None:
    await enqueue_many(store, 2)
    worker = await register(store)
    lost = claim_of(worker)
    first, second = await store.claim_jobs(lost)
    await settle(store, completed(first.id, first.claim))
    assert await store.give_back_batch(worker, lost.batch) == 1
    assert (await read(store, first.id)).state is JobState.COMPLETED
    assert (await read(store, second.id)).state is JobState.QUEUED


@pytest.mark.guards("cancelled-claim")
async def test_a_job_marked_for_cancellation_is_cancelled_when_its_batch_is_given_back(store: Store) -> None:
    await enqueue(store)
    worker = await register(store)
    lost = claim_of(worker)
    (job,) = await store.claim_jobs(lost)
    await cancel(store, job.id)
    assert await store.give_back_batch(worker, lost.batch) == 1
    assert (await read(store, job.id)).state is JobState.CANCELLED


async def test_the_ended_claim_of_a_batch_is_in_the_log(store: Store, clock: Clock) -> None:
    await enqueue(store)
    worker = await register(store)
    lost = claim_of(worker)
    await store.claim_jobs(lost)
    await clock.advance(seconds=1)
    await store.give_back_batch(worker, lost.batch)
    (job,) = await claim(store, worker)
    (entry,) = (await read(store, job.id)).attempts
    assert (entry.claim, entry.attempt, entry.worker, entry.outcome) == (1, 1, worker, "interrupt")
    assert (entry.ended_at, entry.error_class) == (clock.now, None)
