"""Cancel ends a waiting job at once; a running one is marked, and every later move reads the mark."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast.job import TERMINAL, Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Answered, Finish, Verdict
from holdfast.transitions import Transition, cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim,
    claim_one,
    crash,
    end,
    enqueue,
    finished,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock

Ending = Callable[[int, int], Transition]
WAIT_AGAIN: dict[str, Ending] = {
    "retry-later": lambda job, number: retried(job, number, FAILURE, 60_000),
    "retry-now": lambda job, number: retried(job, number, FAILURE, 0),
    "snooze": lambda job, number: snoozed(job, number, 60_000),
    "interrupt": interrupted,
    "crash": lambda job, number: crashed(job, number, FAILURE),
}


async def test_a_queued_job_is_cancelled_at_once(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store)
    await clock.advance(seconds=1)
    answers = await store.cancel_jobs([job_id], actor="alice", reason="not needed")
    assert answers == [Answered(job_id, Answer.DONE, JobState.CANCELLED)]
    job = await read(store, job_id)
    assert (job.state, job.finished_at, job.claim) == (JobState.CANCELLED, clock.now, 0)
    assert job.delete_at == clock.now + timedelta(days=7)
    assert job.extra == {"cancelled_by": "alice", "cancel_reason": "not needed"}
    assert await claim(store, await register(store)) == []


async def test_a_scheduled_job_is_cancelled_at_once_and_never_promoted(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, delay_ms=1_000)
    assert await cancel(store, job_id) is Answer.DONE
    await clock.advance(seconds=2)
    assert (await store.promote_jobs(10)).jobs == 0
    assert (await read(store, job_id)).extra == {}


async def test_a_job_that_waits_for_its_retry_is_cancelled_with_its_log(store: Store) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 60_000))
    assert await cancel(store, job.id) is Answer.DONE
    ended = await read(store, job.id)
    assert [entry.outcome for entry in ended.attempts] == ["retry"]
    assert ended.error == FAILURE.message


async def test_a_running_job_is_marked_and_goes_on(store: Store, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(seconds=1)
    answers = await store.cancel_jobs([job.id], actor="alice", reason=None)
    assert answers == [Answered(job.id, Answer.REQUESTED, JobState.RUNNING)]
    marked = await read(store, job.id)
    assert (marked.state, marked.cancel_requested_at, marked.claim) == (JobState.RUNNING, clock.now, job.claim)
    assert marked.extra == {"cancelled_by": "alice"}


async def test_asking_twice_keeps_the_first_mark(store: Store, clock: Clock) -> None:
    job = await running(store)
    first = await clock.advance(seconds=1)
    await cancel(store, job.id)
    await clock.advance(seconds=1)
    assert await cancel(store, job.id) is Answer.REQUESTED
    assert (await read(store, job.id)).cancel_requested_at == first


async def test_cancelling_a_cancelled_job_answers_that_it_is(store: Store) -> None:
    job_id = await enqueue(store)
    assert await cancel(store, job_id) is Answer.DONE
    before = await read(store, job_id)
    answers = await store.cancel_jobs([job_id], actor="late", reason="late")
    assert answers == [Answered(job_id, Answer.DONE, JobState.CANCELLED)]
    assert await read(store, job_id) == before


@pytest.mark.parametrize("state", sorted(TERMINAL - {JobState.CANCELLED}))
async def test_a_job_that_ended_otherwise_is_not_cancelled(store: Store, state: JobState) -> None:
    ended = await finished(store, state)
    answers = await store.cancel_jobs([ended.id], actor=None, reason=None)
    assert answers == [Answered(ended.id, Answer.WRONG_STATE, state)]
    assert await read(store, ended.id) == ended


async def test_each_job_of_a_call_has_its_own_answer_in_order(store: Store) -> None:
    held = await running(store)
    ended = await finished(store, JobState.COMPLETED)
    waiting = await enqueue(store)
    (unknown,) = await store.take_ids(1)
    answers = await store.cancel_jobs([unknown, held.id, waiting, ended.id], actor=None, reason=None)
    assert answers == [
        Answered(unknown, Answer.NOT_FOUND, None),
        Answered(held.id, Answer.REQUESTED, JobState.RUNNING),
        Answered(waiting, Answer.DONE, JobState.CANCELLED),
        Answered(ended.id, Answer.WRONG_STATE, JobState.COMPLETED),
    ]
    assert await store.cancel_jobs([], actor=None, reason=None) == []


# ---- the mark ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", WAIT_AGAIN.values(), ids=WAIT_AGAIN)
async def test_a_marked_job_is_cancelled_instead_of_waiting_again(store: Store, ending: Ending) -> None:
    job = await running(store)
    await cancel(store, job.id)
    assert await end(store, ending(job.id, job.claim)) == Finish(Verdict.DONE, JobState.CANCELLED)
    ended = await read(store, job.id)
    assert (ended.state, ended.cancel_requested_at is not None) == (JobState.CANCELLED, True)
    assert await claim(store, await register(store)) == []


@pytest.mark.parametrize("crashes", [0, 1, 2])
async def test_a_marked_job_is_cancelled_by_a_rescue_however_often_it_crashed(
    store: Store, clock: Clock, crashes: int
) -> None:
    job = await running(store)
    for _ in range(crashes):
        await crash(store, job)
        await clock.advance(seconds=30)
        await store.promote_jobs(10)
        job = await claim_one(store)
    await cancel(store, job.id)
    await clock.advance(milliseconds=LEASE_MS + 1)
    rescued = await store.rescue_jobs(10)
    assert (rescued.requeued, rescued.failed, rescued.cancelled) == ((), (), (job.id,))
    assert (await read(store, job.id)).state is JobState.CANCELLED


@pytest.mark.parametrize("with_errors", [False, True])
async def test_a_completion_already_achieved_stays(store: Store, with_errors: bool) -> None:
    job = await running(store)
    await cancel(store, job.id)
    done = await settle(store, completed(job.id, job.claim, "1", with_errors=with_errors))
    assert done is not None
    assert done.state is (JobState.COMPLETED_WITH_ERRORS if with_errors else JobState.COMPLETED)
    assert done.result == 1
    assert await cancel(store, job.id) is Answer.WRONG_STATE


async def test_a_handler_that_stops_because_of_the_mark_ends_cancelled(store: Store) -> None:
    job = await running(store)
    await store.cancel_jobs([job.id], actor="alice", reason="why")
    ended = await settle(store, cancelled(job.id, job.claim))
    assert ended is not None
    assert (ended.state, ended.claim) == (JobState.CANCELLED, job.claim)
    assert ended.extra == {"cancelled_by": "alice", "cancel_reason": "why"}


async def test_a_marked_job_that_is_out_of_attempts_is_a_dead_letter(store: Store) -> None:
    job = await running(store)
    await cancel(store, job.id)
    assert await end(store, failed(job.id, job.claim, FAILURE)) == Finish(Verdict.DONE, JobState.FAILED)


async def test_a_new_life_carries_no_mark_and_no_notes(store: Store) -> None:
    job = await running(store)
    await store.cancel_jobs([job.id], actor="alice", reason="why")
    await settle(store, interrupted(job.id, job.claim))
    assert await retry(store, job.id) is Answer.DONE
    again = await claim_one(store)
    assert (again.cancel_requested_at, again.extra) == (None, {})
    waiting = await settle(store, interrupted(again.id, again.claim))
    assert waiting is not None
    assert waiting.state is JobState.QUEUED


# ---- by force ------------------------------------------------------------------------------------------------------


async def test_after_the_grace_a_marked_job_is_ended_by_force_and_its_handler_is_a_zombie(
    store: Store, clock: Clock
) -> None:
    job = await running(store)
    await cancel(store, job.id)
    await clock.advance(milliseconds=29_999)
    assert await store.force_cancels(30_000, 10) == ()
    await clock.advance(milliseconds=1)
    assert await store.force_cancels(30_000, 10) == (job.id,)
    ended = await read(store, job.id)
    assert (ended.state, ended.claim) == (JobState.CANCELLED, job.claim + 1)
    assert await end(store, completed(job.id, job.claim, "1")) == Finish(Verdict.LOST, None)
    assert await read(store, job.id) == ended


async def test_jobs_without_a_mark_are_never_ended_by_force(store: Store, clock: Clock) -> None:
    job = await running(store)
    await enqueue(store)
    await clock.advance(days=1)
    assert await store.force_cancels(0, 10) == ()
    assert (await read(store, job.id)).state is JobState.RUNNING


async def test_force_goes_no_further_than_its_limit_and_begins_with_the_oldest_mark(store: Store, clock: Clock) -> None:
    worker = await register(store)
    jobs = [await running(store, worker) for _ in range(3)]
    for job in reversed(jobs):
        await clock.advance(seconds=1)
        await cancel(store, job.id)
    await clock.advance(seconds=60)
    assert set(await store.force_cancels(30_000, 2)) == {jobs[2].id, jobs[1].id}
    assert await store.force_cancels(30_000, 2) == (jobs[0].id,)
    assert await store.force_cancels(30_000, 2) == ()
