"""Promotion makes due jobs `queued`, earliest first."""

from datetime import timedelta

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Promoted
from holdfast.transitions import retried
from tests.support.builders import (
    FAILURE,
    cancel,
    claim,
    enqueue,
    enqueue_many,
    read,
    register,
    running,
    settle,
    state_of,
)
from tests.support.clock import Clock

_LANES = [("a", 1), ("b", 9), ("a", 1)]


async def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    assert await store.promote_jobs(10) == Promoted(0, (), None)


async def test_a_job_is_promoted_at_its_time_and_not_before(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, delay_ms=1_000)
    await clock.advance(milliseconds=999)
    assert await store.promote_jobs(10) == Promoted(0, (), 1)
    assert await state_of(store, job_id) is JobState.SCHEDULED
    await clock.advance(milliseconds=1)
    assert await store.promote_jobs(10) == Promoted(1, ("default",), None)
    job = await read(store, job_id)
    assert (job.state, job.run_at) == (JobState.QUEUED, clock.now)
    assert job.position is not None


async def test_due_jobs_queue_up_by_their_time_behind_those_that_wait_already(store: Store, clock: Clock) -> None:
    late = await enqueue(store, delay_ms=3_000)
    early = await enqueue(store, delay_ms=1_000)
    middle = await enqueue(store, delay_ms=2_000)
    waiting = await enqueue(store)
    await clock.advance(seconds=5)
    await store.promote_jobs(10)
    assert [job.id for job in await claim(store, await register(store))] == [waiting, early, middle, late]


async def test_jobs_due_at_the_same_time_go_by_id(store: Store, clock: Clock) -> None:
    ids = await enqueue_many(store, 5, run_at=clock.now + timedelta(seconds=1))
    await clock.advance(seconds=1)
    await store.promote_jobs(10)
    assert [job.id for job in await claim(store, await register(store))] == ids


async def test_a_batch_takes_the_earliest_and_tells_what_is_left(store: Store, clock: Clock) -> None:
    await enqueue(store, delay_ms=2_000, queue="second")
    await enqueue(store, delay_ms=1_000, queue="first")
    await enqueue(store, delay_ms=3_600_000)
    await clock.advance(seconds=5)
    assert await store.promote_jobs(1) == Promoted(1, ("first",), 0, lag_ms=4_000)
    assert await store.promote_jobs(1) == Promoted(1, ("second",), 3_595_000, lag_ms=3_000)
    assert await store.promote_jobs(1) == Promoted(0, (), 3_595_000)


async def test_who_asks_for_names_gets_them(store: Store, clock: Clock) -> None:
    ids = [await enqueue(store, queue=queue, priority=priority, delay_ms=1_000) for queue, priority in _LANES]
    await clock.advance(seconds=2)
    ready = (await store.promote_jobs(10, named=True)).ready
    assert sorted((job.id, job.queue, job.priority) for job in ready) == sorted(
        (job_id, *lane) for job_id, lane in zip(ids, _LANES, strict=True)
    )
    assert len({job.due_ms for job in ready}) <= 3
    assert (await store.promote_jobs(10, named=True)).ready == ()


async def test_each_queue_is_named_once(store: Store, clock: Clock) -> None:
    for queue in ("b", "a", "b", "a"):
        await enqueue(store, queue=queue, delay_ms=1)
    await clock.advance(seconds=1)
    promoted = await store.promote_jobs(10)
    assert (promoted.jobs, sorted(promoted.queues)) == (4, ["a", "b"])


async def test_a_retry_is_promoted_when_its_delay_has_passed(store: Store, clock: Clock) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 30_000))
    await clock.advance(seconds=30)
    assert (await store.promote_jobs(10)).jobs == 1
    assert await state_of(store, job.id) is JobState.QUEUED


async def test_what_was_cancelled_is_no_longer_due(store: Store, clock: Clock) -> None:
    await cancel(store, await enqueue(store, delay_ms=1_000))
    await clock.advance(seconds=2)
    assert await store.promote_jobs(10) == Promoted(0, (), None)


async def test_jobs_of_a_paused_queue_become_queued_and_stay_there(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, delay_ms=1_000)
    await store.pause_queue("default", actor=None, reason=None)
    await clock.advance(seconds=1)
    assert (await store.promote_jobs(10)).jobs == 1
    assert await state_of(store, job_id) is JobState.QUEUED
    assert await claim(store, await register(store)) == []
