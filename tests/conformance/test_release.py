"""A worker whose process is known to be gone: its claims end as told, the rest is given back uncharged."""

import pytest

from holdfast.errors import WorkerLost
from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Rescued, Verdict
from holdfast.transitions import cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support.builders import (
    FAILURE,
    cancel,
    claim,
    crash,
    end,
    enqueue,
    enqueue_many,
    read,
    register,
    running,
    state_of,
)
from tests.support.clock import Clock

NOTHING = Rescued(0, (), (), ())


async def held(store: Store, count: int, **changes: object) -> tuple[int, list[JobRow]]:
    """Have one worker take jobs."""
    await enqueue_many(store, count, **changes)
    worker = await register(store)
    return worker, await claim(store, worker)


async def test_the_worker_is_marked_dead_and_can_neither_renew_nor_claim(store: Store, clock: Clock) -> None:
    worker = await register(store)
    assert await store.release_worker(worker, []) == Rescued(1, (), (), ())
    (row,) = await store.list_workers()
    assert (row.id, row.dead_at) == (worker, clock.now)
    assert (await store.renew_workers([worker], 10_000)).alive == frozenset()
    with pytest.raises(WorkerLost):
        await claim(store, worker)


async def test_what_is_not_named_is_given_back_uncharged_and_keeps_its_place(store: Store) -> None:
    worker, jobs = await held(store, 3)
    rescued = await store.release_worker(worker, [])
    assert (rescued.workers, sorted(rescued.requeued)) == (1, sorted(job.id for job in jobs))
    for job in jobs:
        now = await read(store, job.id)
        assert (now.state, now.attempt, now.crashes, now.position) == (JobState.QUEUED, 0, 0, job.position)
        assert (now.worker, now.claim) == (None, job.claim)


async def test_what_is_named_ends_as_it_is_told(store: Store) -> None:
    worker, jobs = await held(store, 8)
    crash_, fail, retry, later, snooze, cancel_, complete, rest = jobs
    rescued = await store.release_worker(
        worker,
        [
            completed(complete.id, 1, '"done"'),  # in no order of ids
            crashed(crash_.id, 1, FAILURE),
            failed(fail.id, 1, FAILURE),
            cancelled(cancel_.id, 1),
            retried(retry.id, 1, FAILURE, 0),
            retried(later.id, 1, FAILURE, 60_000),
            snoozed(snooze.id, 1, 60_000),
        ],
    )
    waiting = sorted(job.id for job in (crash_, retry, later, snooze, rest))
    assert (rescued.workers, sorted(rescued.requeued)) == (1, waiting)
    assert (rescued.failed, rescued.cancelled) == ((fail.id,), (cancel_.id,))
    found = {job.id: (job.state, job.attempt, job.crashes) for job in await store.get_jobs([job.id for job in jobs])}
    assert found == {
        crash_.id: (JobState.QUEUED, 0, 1),
        fail.id: (JobState.FAILED, 1, 0),
        retry.id: (JobState.QUEUED, 1, 0),
        later.id: (JobState.SCHEDULED, 1, 0),
        snooze.id: (JobState.SCHEDULED, 0, 0),
        cancel_.id: (JobState.CANCELLED, 1, 0),
        complete.id: (JobState.COMPLETED, 1, 0),
        rest.id: (JobState.QUEUED, 0, 0),
    }
    assert (await read(store, fail.id)).error == FAILURE.message
    assert (await read(store, complete.id)).result == "done"


async def test_a_crash_that_a_job_had_alone_buries_it(store: Store) -> None:
    job = await running(store, max_crashes=2)
    await crash(store, job)
    worker = await register(store)
    (again,) = await claim(store, worker)
    rescued = await store.release_worker(worker, [crashed(again.id, again.claim, FAILURE)])
    assert rescued == Rescued(1, (), (job.id,), ())
    assert (await read(store, job.id)).crashes == 2
    assert (await end(store, completed(again.id, again.claim))).verdict is Verdict.LOST


@pytest.mark.guards("cancelled-claim")
async def test_whose_cancellation_was_requested_does_not_wait_again(store: Store) -> None:
    worker, (named, unnamed) = await held(store, 2)
    for job in (named, unnamed):
        assert await cancel(store, job.id) is Answer.REQUESTED
    rescued = await store.release_worker(worker, [crashed(named.id, 1, FAILURE)])
    assert (rescued.requeued, sorted(rescued.cancelled)) == ((), sorted([named.id, unnamed.id]))
    assert {await state_of(store, job.id) for job in (named, unnamed)} == {JobState.CANCELLED}


async def test_repeated_it_changes_nothing_more(store: Store) -> None:
    worker, (crashing, retrying, other) = await held(store, 3)
    ends = [crashed(crashing.id, 1, FAILURE), retried(retrying.id, 1, FAILURE, 0)]
    first = await store.release_worker(worker, ends)
    assert (first.workers, len(first.requeued)) == (1, 3)
    before = await store.get_jobs([crashing.id, retrying.id, other.id])
    assert await store.release_worker(worker, ends) == NOTHING
    heir = await register(store)
    claimed = await claim(store, heir)
    assert await store.release_worker(worker, ends) == NOTHING
    assert sorted((job.id, job.claim, job.crashes, job.attempt) for job in claimed) == sorted(
        (job.id, 2, job.crashes, job.attempt + 1) for job in before
    )
    assert {job.worker for job in await store.get_jobs([job.id for job in claimed])} == {heir}


@pytest.mark.guards("release-holder")
async def test_a_claim_of_another_worker_is_left_alone(store: Store) -> None:
    theirs = await running(store)
    worker = await register(store)
    assert await store.release_worker(worker, [failed(theirs.id, theirs.claim, FAILURE)]) == Rescued(1, (), (), ())
    assert (await read(store, theirs.id)) == theirs


@pytest.mark.guards("release-claim")
async def test_an_end_under_a_stale_claim_does_not_count_and_the_job_is_given_back(store: Store) -> None:
    job = await running(store)
    await end(store, interrupted(job.id, job.claim))
    worker = await register(store)
    (again,) = await claim(store, worker)
    rescued = await store.release_worker(worker, [failed(job.id, job.claim, FAILURE), completed(2**40, 1)])
    assert rescued == Rescued(1, (job.id,), (), ())
    assert ((await read(store, job.id)).state, again.claim) == (JobState.QUEUED, job.claim + 1)


async def test_a_worker_that_is_not_entered_any_more_still_gives_back(store: Store) -> None:
    assert await store.release_worker(4_711, []) == NOTHING
    job_id = await enqueue(store)
    worker = await register(store)
    (job,) = await claim(store, worker)
    await store.release_worker(worker, [crashed(job.id, job.claim, FAILURE)])
    await store.retire_worker(worker)
    assert await store.release_worker(worker, [crashed(job.id, job.claim, FAILURE)]) == NOTHING
    assert (await read(store, job_id)).crashes == 1


async def test_a_job_may_not_be_named_twice(store: Store) -> None:
    worker, (job,) = await held(store, 1)
    with pytest.raises(ValueError, match="named twice"):
        await store.release_worker(worker, [crashed(job.id, 1, FAILURE), interrupted(job.id, 1)])
    assert await state_of(store, job.id) is JobState.RUNNING


async def test_leases_have_a_way_of_their_own(store: Store) -> None:
    worker, (job,) = await held(store, 1)
    async with store.reserve() as leases:
        renewal = await leases.renew_workers([worker], 10_000)
        assert (renewal.alive, [found.id for found in renewal.held]) == (frozenset({worker}), [job.id])
        other = await register(store)
        assert {row.id for row in await leases.list_workers()} == {worker, other}
        assert (await leases.release_worker(worker, [])).requeued == (job.id,)
    assert await state_of(store, job.id) is JobState.QUEUED
