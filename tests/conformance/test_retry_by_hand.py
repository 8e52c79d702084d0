"""Retry by hand: the same job in a new life, its claims counted on, its attempts fresh."""

from datetime import timedelta

import pytest

from holdfast.job import RETRYABLE, Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Answered, Finish, ProgressReport, Started, Verdict
from holdfast.transitions import completed, failed, retried, snoozed
from tests.support.builders import (
    FAILURE,
    claim,
    claim_one,
    crash,
    end,
    enqueue,
    finished,
    keeping,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock


@pytest.mark.parametrize("state", sorted(RETRYABLE))
async def test_a_job_that_did_not_simply_complete_gets_a_new_life(store: Store, clock: Clock, state: JobState) -> None:
    ended = await finished(store, state, payload='{"a": 1}', tags={"t": "v"}, actor="bob", timeout_ms=None)
    await clock.advance(seconds=5)
    assert await store.retry_jobs([ended.id]) == [Answered(ended.id, Answer.DONE, JobState.QUEUED)]
    job = await read(store, ended.id)
    assert (job.state, job.life, job.claim, job.attempt, job.crashes) == (JobState.QUEUED, 2, ended.claim, 0, 0)
    assert (job.run_at, job.enqueued_at) == (clock.now, ended.enqueued_at)
    assert (job.payload, job.tags, job.actor, job.timeout_ms) == ({"a": 1}, {"t": "v"}, "bob", None)
    assert (job.finished_at, job.result_json, job.delete_at, job.worker) == (None, None, None, None)
    assert (job.error_class, job.error, job.error_fingerprint) == (None, None, None)
    assert await store.finished_jobs([ended.id]) == []


async def test_attempts_and_crashes_begin_anew_and_claims_go_on(store: Store, clock: Clock) -> None:
    job = await running(store)
    await crash(store, job)
    job = await claim_one(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 0))
    job = await claim_one(store)
    assert (job.claim, job.attempt, job.crashes) == (3, 2, 1)
    await settle(store, failed(job.id, job.claim, FAILURE))
    assert await retry(store, job.id) is Answer.DONE
    again = await claim_one(store)
    assert (again.claim, again.attempt, again.crashes, again.life) == (4, 1, 0, 2)


async def test_the_log_goes_on_with_the_claim_that_ended_the_life_before(store: Store) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 0))
    job = await claim_one(store)
    dead = await settle(store, failed(job.id, job.claim, FAILURE, started_ago_ms=0))
    assert dead is not None
    await retry(store, job.id)
    log = (await read(store, job.id)).attempts
    assert [(entry.claim, entry.attempt, entry.outcome) for entry in log] == [(1, 1, "retry"), (2, 2, "failed")]
    last = log[1]
    assert (last.worker, last.claimed_at, last.started_at) == (dead.worker, dead.claimed_at, dead.started_at)
    assert (last.ended_at, last.error, last.traceback) == (dead.finished_at, FAILURE.message, FAILURE.traceback)
    again = await claim_one(store)
    done = await settle(store, completed(again.id, again.claim))
    assert done is not None
    assert [(entry.claim, entry.outcome) for entry in done.attempts] == [(1, "retry"), (2, "failed")]
    assert done.extra == {}


async def test_a_job_that_was_never_claimed_has_an_empty_log(store: Store) -> None:
    ended = await finished(store, JobState.CANCELLED)
    await retry(store, ended.id)
    assert (await read(store, ended.id)).attempts == []


async def test_a_new_life_goes_to_the_end_of_its_lane(store: Store) -> None:
    ended = await finished(store, JobState.FAILED)
    waiting = await enqueue(store)
    await retry(store, ended.id)
    assert [job.id for job in await claim(store, await register(store))] == [waiting, ended.id]


async def test_a_completed_job_is_refused(store: Store) -> None:
    ended = await finished(store, JobState.COMPLETED)
    assert await store.retry_jobs([ended.id]) == [Answered(ended.id, Answer.WRONG_STATE, JobState.COMPLETED)]
    assert await read(store, ended.id) == ended


async def test_live_jobs_are_refused(store: Store) -> None:
    held = await running(store)
    waiting = await enqueue(store)
    later = await enqueue(store, delay_ms=1_000)
    (unknown,) = await store.take_ids(1)
    assert await store.retry_jobs([held.id, waiting, later, unknown]) == [
        Answered(held.id, Answer.WRONG_STATE, JobState.RUNNING),
        Answered(waiting, Answer.WRONG_STATE, JobState.QUEUED),
        Answered(later, Answer.WRONG_STATE, JobState.SCHEDULED),
        Answered(unknown, Answer.NOT_FOUND, None),
    ]
    assert await read(store, held.id) == held


async def test_retrying_twice_starts_one_life(store: Store) -> None:
    ended = await finished(store, JobState.FAILED)
    assert await retry(store, ended.id) is Answer.DONE
    assert await retry(store, ended.id) is Answer.WRONG_STATE
    assert (await read(store, ended.id)).life == 2


async def test_a_clash_of_unique_keys_names_the_live_job_and_leaves_history_untouched(store: Store) -> None:
    ended = await finished(store, JobState.FAILED, unique="u")
    live = await enqueue(store, unique="u")
    other = await finished(store, JobState.CANCELLED)
    answers = await store.retry_jobs([ended.id, other.id])
    assert answers[0] == Answered(ended.id, Answer.UNIQUE_CLASH, JobState.FAILED, live)
    assert answers[1].answer is Answer.DONE
    assert await read(store, ended.id) == ended


async def test_of_two_dead_letters_of_one_key_the_first_lives_again(store: Store) -> None:
    first = await finished(store, JobState.FAILED, unique="u")
    second = await finished(store, JobState.FAILED, unique="u")
    one, other = await store.retry_jobs([first.id, second.id])
    assert one.answer is Answer.DONE
    assert (other.answer, other.other) == (Answer.UNIQUE_CLASH, first.id)


async def test_a_job_within_a_day_of_its_deletion_is_refused(store: Store, clock: Clock) -> None:
    kept = keeping(completed_ms=1, completed_with_errors_ms=1, failed_ms=2 * 86_400_000, cancelled_ms=1)
    await store.define_queues({"default": kept})
    ended = await finished(store, JobState.FAILED)
    await clock.advance(timedelta(days=1))
    assert await retry(store, ended.id) is Answer.DONE  # just in time
    job = await claim_one(store)
    await settle(store, failed(job.id, job.claim, FAILURE))
    await clock.advance(timedelta(days=1, milliseconds=1))
    assert await store.retry_jobs([ended.id]) == [Answered(ended.id, Answer.EXPIRING, JobState.FAILED)]
    assert (await read(store, ended.id)).state is JobState.FAILED


async def test_a_job_kept_for_less_than_two_days_is_refused_in_the_second_half_of_them(
    store: Store, clock: Clock
) -> None:
    kept = keeping(completed_ms=1, completed_with_errors_ms=1, failed_ms=60_000, cancelled_ms=60_000)
    await store.define_queues({"default": kept})
    one, other = await finished(store, JobState.FAILED), await finished(store, JobState.CANCELLED)
    await clock.advance(seconds=30)
    assert await retry(store, one.id) is Answer.DONE
    await clock.advance(milliseconds=1)
    assert await retry(store, other.id) is Answer.EXPIRING


async def test_an_expired_job_is_not_found(store: Store, clock: Clock) -> None:
    ended = await finished(store, JobState.FAILED)
    await clock.advance(days=30)
    assert await store.retry_jobs([ended.id]) == [Answered(ended.id, Answer.NOT_FOUND, None)]


async def test_a_job_kept_for_ever_can_be_retried(store: Store) -> None:
    policy = keeping(completed_ms=None, completed_with_errors_ms=None, failed_ms=None, cancelled_ms=None)
    await store.define_queues({"default": policy})
    ended = await finished(store, JobState.FAILED)
    assert await retry(store, ended.id) is Answer.DONE


async def test_a_zombie_of_an_earlier_life_changes_nothing(store: Store) -> None:
    # F1: a snooze gives the attempt back, and so does the manual retry; only the claim number tells the claims apart.
    zombie = await running(store)
    await settle(store, snoozed(zombie.id, zombie.claim, 0))
    second = await claim_one(store)
    assert (zombie.attempt, second.attempt) == (1, 1)
    lost = Finish(Verdict.LOST, None)
    assert await end(store, completed(zombie.id, zombie.claim, '"zombie"')) == lost

    await settle(store, failed(second.id, second.claim, FAILURE))
    assert await retry(store, zombie.id) is Answer.DONE
    current = await claim_one(store)
    assert (current.attempt, current.claim) == (1, 3)
    assert await end(store, failed(zombie.id, zombie.claim, FAILURE)) == lost
    again = await end(store, failed(second.id, second.claim, FAILURE))
    assert again == Finish(Verdict.ALREADY, JobState.RUNNING)  # sent twice: it was accepted in the earlier life
    for old in (zombie, second):
        assert await end(store, completed(old.id, old.claim, '"zombie"')) == lost
        assert await store.start_jobs([Started(old.id, old.claim, 0)]) == [Verdict.LOST]
        assert await store.save_progress([ProgressReport(old.id, old.claim, 50.0)]) == [Verdict.LOST]
    untouched = await read(store, current.id)
    assert (untouched.state, untouched.started_at, untouched.progress) == (JobState.RUNNING, None, None)

    done = await settle(store, completed(current.id, current.claim, '"ours"'))
    assert done is not None
    assert (done.result, done.life, done.claim) == ("ours", 2, 3)
    assert await end(store, failed(zombie.id, zombie.claim, FAILURE)) == lost
