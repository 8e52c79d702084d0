"""Reschedule, reprioritise and delete, in every state."""

from datetime import timedelta

import pytest

from holdfast.job import TERMINAL, Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Answered, Finish, Verdict
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import (
    claim,
    end,
    enqueue,
    enqueue_many,
    find,
    finished,
    lane,
    read,
    register,
    running,
)
from tests.support.clock import Clock

PARKED = [JobState.HELD, JobState.BLOCKED]


async def parked(store: Store, state: JobState) -> int:
    """A job in a state that later issues bring jobs to."""
    job_id = await enqueue(store)
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = '{state}', position = NULL WHERE id = {job_id}")
    return job_id


# ---- reschedule ----------------------------------------------------------------------------------------------------


async def test_a_queued_job_can_be_put_off_to_a_time(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store)
    at = clock.now + timedelta(hours=1)
    answers = await store.reschedule_jobs([job_id], run_at=at, delay_ms=None)
    assert answers == [Answered(job_id, Answer.DONE, JobState.SCHEDULED)]
    job = await read(store, job_id)
    assert (job.state, job.run_at, job.position) == (JobState.SCHEDULED, at, None)
    assert await claim(store, await register(store)) == []


async def test_a_queued_job_can_be_put_off_by_a_delay(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store)
    await clock.advance(seconds=10)
    await store.reschedule_jobs([job_id], run_at=None, delay_ms=5_000)
    assert (await read(store, job_id)).run_at == clock.now + timedelta(seconds=5)


async def test_a_scheduled_job_can_be_made_due_now_and_goes_to_the_end(store: Store, clock: Clock) -> None:
    later = await enqueue(store, delay_ms=60_000)
    waiting = await enqueue(store)
    answers = await store.reschedule_jobs([later], run_at=None, delay_ms=0)
    assert answers == [Answered(later, Answer.DONE, JobState.QUEUED)]
    assert (await read(store, later)).run_at == clock.now
    assert [job.id for job in await claim(store, await register(store))] == [waiting, later]


async def test_a_queued_job_made_due_now_goes_to_the_end(store: Store) -> None:
    first, second = await enqueue_many(store, 2)
    await store.reschedule_jobs([first], run_at=None, delay_ms=0)
    assert [job.id for job in await claim(store, await register(store))] == [second, first]


@pytest.mark.parametrize("state", PARKED)
async def test_a_parked_job_that_is_due_stays_parked(store: Store, clock: Clock, state: JobState) -> None:
    job_id = await parked(store, state)
    answers = await store.reschedule_jobs([job_id], run_at=None, delay_ms=0)
    assert answers == [Answered(job_id, Answer.DONE, state)]
    assert (await read(store, job_id)).run_at == clock.now


async def test_a_held_job_can_be_put_off_and_a_blocked_one_stays_blocked(store: Store, clock: Clock) -> None:
    held, blocked = await parked(store, JobState.HELD), await parked(store, JobState.BLOCKED)
    answers = await store.reschedule_jobs([held, blocked], run_at=None, delay_ms=1_000)
    assert [answer.state for answer in answers] == [JobState.SCHEDULED, JobState.BLOCKED]
    assert (await read(store, blocked)).run_at == clock.now + timedelta(seconds=1)


# ---- reprioritise --------------------------------------------------------------------------------------------------


async def test_a_queued_job_goes_to_the_end_of_its_new_lane(store: Store) -> None:
    job_id, other = await enqueue_many(store, 2)
    first = await enqueue(store, priority=0)
    assert await store.reprioritise_jobs([job_id], 0) == [Answered(job_id, Answer.DONE, JobState.QUEUED)]
    worker = await register(store)
    taken = await claim(store, worker, lane(priority=0), lane(priority=5))
    assert [(job.id, job.priority) for job in taken] == [(first, 0), (job_id, 0), (other, 5)]


async def test_a_scheduled_job_changes_its_lane_and_keeps_its_time(store: Store) -> None:
    job_id = await enqueue(store, delay_ms=60_000)
    before = await read(store, job_id)
    assert await store.reprioritise_jobs([job_id], 10) == [Answered(job_id, Answer.DONE, JobState.SCHEDULED)]
    job = await read(store, job_id)
    assert (job.priority, job.run_at, job.position) == (10, before.run_at, None)


@pytest.mark.parametrize("state", PARKED)
async def test_a_parked_job_changes_its_lane_and_stays_parked(store: Store, state: JobState) -> None:
    job_id = await parked(store, state)
    assert await store.reprioritise_jobs([job_id], 1) == [Answered(job_id, Answer.DONE, state)]
    assert (await read(store, job_id)).priority == 1


# ---- what may not be touched ---------------------------------------------------------------------------------------


async def test_a_running_job_is_neither_rescheduled_nor_reprioritised_nor_deleted(store: Store) -> None:
    job = await running(store)
    refused = [Answered(job.id, Answer.WRONG_STATE, JobState.RUNNING)]
    assert await store.reschedule_jobs([job.id], run_at=None, delay_ms=1_000) == refused
    assert await store.reprioritise_jobs([job.id], 0) == refused
    assert await store.delete_jobs([job.id]) == refused
    assert await read(store, job.id) == job


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_finished_job_is_neither_rescheduled_nor_reprioritised(store: Store, state: JobState) -> None:
    ended = await finished(store, state)
    refused = [Answered(ended.id, Answer.WRONG_STATE, state)]
    assert await store.reschedule_jobs([ended.id], run_at=None, delay_ms=0) == refused
    assert await store.reprioritise_jobs([ended.id], 0) == refused
    assert await read(store, ended.id) == ended


async def test_jobs_that_do_not_exist_are_not_found(store: Store) -> None:
    (unknown,) = await store.take_ids(1)
    missing = [Answered(unknown, Answer.NOT_FOUND, None)]
    assert await store.reschedule_jobs([unknown], run_at=None, delay_ms=0) == missing
    assert await store.reprioritise_jobs([unknown], 0) == missing
    assert await store.delete_jobs([unknown]) == missing


# ---- delete --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_finished_job_can_be_deleted_once(store: Store, state: JobState) -> None:
    ended = await finished(store, state, tags={"t": "v"})
    assert await store.delete_jobs([ended.id]) == [Answered(ended.id, Answer.DONE, state)]
    assert await find(store, ended.id) is None
    assert await store.delete_jobs([ended.id]) == [Answered(ended.id, Answer.NOT_FOUND, None)]
    assert await end(store, completed(ended.id, ended.claim)) == Finish(Verdict.LOST, None)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.SCHEDULED, *PARKED])
async def test_a_waiting_job_is_not_deleted(store: Store, state: JobState) -> None:
    if state in PARKED:
        job_id = await parked(store, state)
    else:
        job_id = await enqueue(store, delay_ms=60_000 if state is JobState.SCHEDULED else 0)
    assert await store.delete_jobs([job_id]) == [Answered(job_id, Answer.WRONG_STATE, state)]
    assert (await read(store, job_id)).state is state


@pytest.mark.parametrize("state", PARKED)
async def test_a_parked_job_can_be_cancelled(store: Store, state: JobState) -> None:
    job_id = await parked(store, state)
    answers = await store.cancel_jobs([job_id], actor=None, reason=None)
    assert answers == [Answered(job_id, Answer.DONE, JobState.CANCELLED)]


async def test_each_job_of_a_call_has_its_own_answer_in_order(store: Store) -> None:
    held = await running(store)
    ended = await finished(store, JobState.COMPLETED)
    waiting = await enqueue(store)
    (unknown,) = await store.take_ids(1)
    asked = [unknown, waiting, held.id, ended.id, waiting]
    answers = await store.reprioritise_jobs(asked, 3)
    assert [answer.id for answer in answers] == asked
    assert [answer.answer for answer in answers] == [
        Answer.NOT_FOUND,
        Answer.DONE,
        Answer.WRONG_STATE,
        Answer.WRONG_STATE,
        Answer.DONE,
    ]
    assert await store.delete_jobs([]) == []
