"""The end of a claim: written once, under the fence `(id, claim)`, whatever becomes of the reply."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.failure import Failure
from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Finish, Started, Verdict
from holdfast.transitions import (
    Transition,
    Verb,
    cancelled,
    completed,
    crashed,
    failed,
    interrupted,
    retried,
    snoozed,
    throttled,
)
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim,
    claim_of,
    claim_one,
    crash,
    end,
    enqueue,
    enqueue_many,
    find,
    keeping,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock

Ending = Callable[[int, int], Transition]

ENDINGS: dict[str, tuple[Ending, JobState]] = {
    "complete": (lambda job, claim: completed(job, claim, "1"), JobState.COMPLETED),
    "complete-with-errors": (
        lambda job, claim: completed(job, claim, "1", with_errors=True),
        JobState.COMPLETED_WITH_ERRORS,
    ),
    "fail": (lambda job, claim: failed(job, claim, FAILURE), JobState.FAILED),
    "cancel": (cancelled, JobState.CANCELLED),
    "retry-later": (lambda job, claim: retried(job, claim, FAILURE, 60_000), JobState.SCHEDULED),
    "retry-now": (lambda job, claim: retried(job, claim, FAILURE, 0), JobState.QUEUED),
    "snooze-later": (lambda job, claim: snoozed(job, claim, 60_000), JobState.SCHEDULED),
    "snooze-now": (lambda job, claim: snoozed(job, claim, 0), JobState.QUEUED),
    "throttle-later": (lambda job, claim: throttled(job, claim, 60_000), JobState.SCHEDULED),
    "throttle-now": (lambda job, claim: throttled(job, claim, 0), JobState.QUEUED),
    "interrupt": (interrupted, JobState.QUEUED),
    "crash": (lambda job, claim: crashed(job, claim, FAILURE), JobState.QUEUED),
}
every_ending = pytest.mark.parametrize("ending, target", ENDINGS.values(), ids=ENDINGS)
LOST = Finish(Verdict.LOST, None)


def test_every_verb_is_tried() -> None:
    assert {ending(1, 1).verb for ending, _ in ENDINGS.values()} == set(Verb)


@every_ending
async def test_a_verb_leads_to_its_state(store: Store, ending: Ending, target: JobState) -> None:
    job = await running(store)
    assert await end(store, ending(job.id, job.claim)) == Finish(Verdict.DONE, target)
    assert (await read(store, job.id)).state is target


@pytest.mark.guards("repeated-finish")
@every_ending
async def test_sent_again_after_a_lost_reply_it_was_us(store: Store, ending: Ending, target: JobState) -> None:
    job = await running(store)
    await settle(store, ending(job.id, job.claim))
    before = await read(store, job.id)
    assert await end(store, ending(job.id, job.claim)) == Finish(Verdict.ALREADY, target)
    assert await read(store, job.id) == before


@pytest.mark.guards("finish-fence")
@every_ending
async def test_a_stale_claim_changes_nothing(store: Store, ending: Ending, target: JobState) -> None:
    old = await running(store)
    await settle(store, snoozed(old.id, old.claim, 0))
    current = await claim_one(store)
    if ending(1, 1).verb is not Verb.SNOOZE:  # that one was accepted
        assert await end(store, ending(old.id, old.claim)) == LOST
    assert await end(store, ending(old.id, current.claim + 1)) == LOST
    assert (await read(store, old.id)).state is JobState.RUNNING
    assert await end(store, ending(old.id, current.claim)) == Finish(Verdict.DONE, target)


@every_ending
async def test_a_job_that_is_not_running_is_not_ended(store: Store, ending: Ending, target: JobState) -> None:
    job_id = await enqueue(store)
    assert await end(store, ending(job_id, 0)) == LOST
    assert await end(store, ending(job_id, 1)) == LOST
    later = await enqueue(store, delay_ms=1_000)
    assert await end(store, ending(later, 0)) == LOST
    assert [(await read(store, found)).state for found in (job_id, later)] == [JobState.QUEUED, JobState.SCHEDULED]


@every_ending
async def test_a_job_that_does_not_exist_is_lost(store: Store, ending: Ending, target: JobState) -> None:
    (unknown,) = await store.take_ids(1)
    assert await end(store, ending(unknown, 1)) == LOST


# ---- it was us, or it was not --------------------------------------------------------------------------------------


async def test_a_claim_that_waits_again_was_us_even_when_the_job_runs_again_or_has_ended(store: Store) -> None:
    first = await running(store)
    transition = retried(first.id, first.claim, FAILURE, 0)
    await settle(store, transition)
    second = await claim_one(store)
    assert await end(store, transition) == Finish(Verdict.ALREADY, JobState.RUNNING)
    await settle(store, completed(second.id, second.claim))
    assert await end(store, transition) == Finish(Verdict.ALREADY, JobState.COMPLETED)


async def test_another_write_of_an_ended_claim_is_lost(store: Store) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 0))
    assert await end(store, completed(job.id, job.claim)) == LOST
    assert await end(store, snoozed(job.id, job.claim, 0)) == LOST
    assert (await read(store, job.id)).state is JobState.QUEUED


async def test_a_completion_after_a_rescue_is_lost(store: Store, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    assert await end(store, completed(job.id, job.claim)) == LOST


async def test_a_completion_after_a_rescue_and_a_cancellation_is_lost(store: Store, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    assert await cancel(store, job.id) is Answer.DONE
    assert await end(store, completed(job.id, job.claim)) == LOST


@pytest.mark.guards("outside-claim")
async def test_a_completion_after_a_burial_is_lost(store: Store) -> None:
    job = await running(store, max_crashes=1)
    assert (await crash(store, job)).state is JobState.FAILED
    assert await end(store, completed(job.id, job.claim)) == LOST


async def test_a_crash_that_buried_the_job_was_us_when_sent_again(store: Store) -> None:
    job = await running(store, max_crashes=1)
    assert (await crash(store, job)).state is JobState.FAILED
    transition = crashed(job.id, job.claim, FAILURE)
    assert await end(store, transition) == Finish(Verdict.ALREADY, JobState.FAILED)


@pytest.mark.guards("outside-claim")
async def test_a_completion_after_a_forced_cancellation_is_lost(store: Store, clock: Clock) -> None:
    job = await running(store)
    await cancel(store, job.id)
    assert await store.force_cancels(0, 10) == (job.id,)
    assert await end(store, completed(job.id, job.claim)) == LOST


async def test_a_write_of_a_deleted_job_is_lost(store: Store) -> None:
    job = await running(store)
    await settle(store, completed(job.id, job.claim))
    await store.delete_jobs([job.id])
    assert await end(store, completed(job.id, job.claim)) == LOST
    assert await find(store, job.id) is None


# ---- batches, and the next claim -----------------------------------------------------------------------------------


async def test_one_call_ends_many_jobs_each_in_its_own_way_and_answers_in_order(store: Store) -> None:
    ids = await enqueue_many(store, len(ENDINGS) + 1)
    jobs = await claim(store, await register(store))
    assert [job.id for job in jobs] == ids
    transitions = [ending(job.id, job.claim) for job, (ending, _) in zip(jobs, ENDINGS.values(), strict=False)]
    stale = completed(jobs[-1].id, jobs[-1].claim + 1)
    worked = await store.finish_jobs([stale, *reversed(transitions)])
    expected = [Finish(Verdict.DONE, target) for _, target in ENDINGS.values()]
    assert worked.finishes == [LOST, *reversed(expected)]
    assert (worked.claimed, worked.worker_lost) == ([], False)


async def test_ending_nothing_answers_nothing(store: Store) -> None:
    worked = await store.finish_jobs([])
    assert (worked.finishes, worked.claimed, worked.worker_lost) == ([], [], False)


async def test_a_job_named_twice_in_one_call_is_refused_and_nothing_is_written(store: Store) -> None:
    worker = await register(store)
    job, other = await running(store, worker), await running(store, worker)
    twice = [
        completed(other.id, other.claim),
        snoozed(job.id, job.claim, 0),
        completed(job.id, job.claim),
    ]
    with pytest.raises(ValueError, match="twice"):
        await store.finish_jobs(twice)
    assert [(await read(store, found.id)).state for found in (job, other)] == [JobState.RUNNING] * 2


async def test_the_next_jobs_are_taken_in_the_same_call(store: Store, clock: Clock) -> None:
    worker = await register(store)
    job = await running(store, worker)
    waiting = await enqueue_many(store, 3)
    request = claim_of(worker, limit=2)
    worked = await store.finish_jobs([completed(job.id, job.claim)], claim=request)
    assert worked.finishes == [Finish(Verdict.DONE, JobState.COMPLETED)]
    assert [(taken.id, taken.claim, taken.claim_batch) for taken in worked.claimed] == [
        (waiting[0], 1, request.batch),
        (waiting[1], 1, request.batch),
    ]


async def test_the_claim_sees_what_the_finish_gave_back(store: Store) -> None:
    worker = await register(store)
    job = await running(store, worker)
    worked = await store.finish_jobs([interrupted(job.id, job.claim)], claim=claim_of(worker))
    assert [(taken.id, taken.claim) for taken in worked.claimed] == [(job.id, 2)]


async def test_a_claim_may_travel_without_a_finish(store: Store) -> None:
    job_id = await enqueue(store)
    worked = await store.finish_jobs([], claim=claim_of(await register(store)))
    assert (worked.finishes, [job.id for job in worked.claimed]) == ([], [job_id])


async def test_a_claim_with_a_finish_passes_the_same_gates(store: Store) -> None:
    worker = await register(store)
    job = await running(store, worker)
    await enqueue(store)
    await store.pause_queue("default", actor=None, reason=None)
    worked = await store.finish_jobs([completed(job.id, job.claim)], claim=claim_of(worker))
    assert (worked.finishes[0].verdict, worked.claimed) == (Verdict.DONE, [])


async def test_a_dead_worker_ends_what_it_holds_and_takes_nothing_new(store: Store, clock: Clock) -> None:
    dead, alive = await register(store), await register(store, lease_ms=3_600_000)
    job = await running(store, alive)
    waiting = await enqueue(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    worked = await store.finish_jobs([completed(job.id, job.claim)], claim=claim_of(dead))
    assert worked.worker_lost
    assert (worked.finishes, worked.claimed) == ([Finish(Verdict.DONE, JobState.COMPLETED)], [])
    assert (await read(store, waiting)).state is JobState.QUEUED
    assert not (await store.finish_jobs([], claim=claim_of(alive))).worker_lost


# ---- what is kept --------------------------------------------------------------------------------------------------


async def test_a_finished_job_is_one_row_with_its_result(store: Store, clock: Clock) -> None:
    job = await running(store, payload='{"a": 1}', tags={"t": "v"}, actor="bob", key="k", unique="u")
    await clock.advance(seconds=2)
    done = await settle(store, completed(job.id, job.claim, '{"answer": [42, null, "ü"]}', started_ago_ms=500))
    assert done is not None
    assert done.result == {"answer": [42, None, "ü"]}
    assert (done.finished_at, done.started_at) == (clock.now, clock.now - timedelta(milliseconds=500))
    assert (done.claim, done.life, done.attempt, done.worker) == (1, 1, 1, job.worker)
    assert (done.payload, done.tags, done.actor) == ({"a": 1}, {"t": "v"}, "bob")
    assert (done.idempotency_key, done.unique_key) == ("k", "u")
    assert (done.error_class, done.error, done.is_finished) == (None, None, True)


async def test_every_kind_of_result_is_kept(store: Store) -> None:
    for result in (None, "null", "0", '""', "[]", "1.5", "18446744073709551615"):
        job = await running(store)
        done = await settle(store, completed(job.id, job.claim, result))
        assert done is not None
        assert done.result_json == result


async def test_a_failure_is_kept_with_its_traceback(store: Store) -> None:
    job = await running(store)
    dead = await settle(store, failed(job.id, job.claim, FAILURE))
    assert dead is not None
    assert (dead.error_class, dead.error) == (FAILURE.error_class, FAILURE.message)
    assert dead.error_fingerprint == FAILURE.fingerprint
    assert dead.extra == {"traceback": FAILURE.traceback}
    assert (dead.attempt, dead.attempts) == (1, [])


async def test_a_completion_forgets_the_error_of_the_attempt_before(store: Store) -> None:
    job = await running(store)
    waiting = await settle(store, retried(job.id, job.claim, FAILURE, 0))
    assert waiting is not None
    assert (waiting.error_class, waiting.error) == (FAILURE.error_class, FAILURE.message)
    again = await claim_one(store)
    done = await settle(store, completed(again.id, again.claim))
    assert done is not None
    assert (done.error_class, done.error, done.error_fingerprint) == (None, None, None)
    assert [entry.error for entry in done.attempts] == [FAILURE.message]


async def test_a_cancellation_keeps_the_error_of_the_attempt_before(store: Store) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 0))
    again = await claim_one(store)
    ended = await settle(store, cancelled(again.id, again.claim))
    assert ended is not None
    assert ended.error == FAILURE.message


async def test_a_retry_waits_its_delay_and_keeps_the_attempt(store: Store, clock: Clock) -> None:
    job = await running(store)
    waiting = await settle(store, retried(job.id, job.claim, FAILURE, 30_000))
    assert waiting is not None
    assert (waiting.state, waiting.position) == (JobState.SCHEDULED, None)
    assert waiting.run_at == clock.now + timedelta(seconds=30)
    assert (waiting.attempt, waiting.claim, waiting.crashes) == (1, 1, 0)
    assert (waiting.worker, waiting.claim_batch, waiting.claimed_at, waiting.started_at) == (None,) * 4


async def test_a_snooze_gives_the_attempt_back(store: Store, clock: Clock) -> None:
    job = await running(store)
    waiting = await settle(store, snoozed(job.id, job.claim, 30_000))
    assert waiting is not None
    assert waiting.run_at == clock.now + timedelta(seconds=30)
    assert (waiting.attempt, waiting.claim, waiting.error) == (0, 1, None)


async def test_what_is_given_back_keeps_its_place_and_what_is_retried_goes_to_the_end(store: Store) -> None:
    ids = await enqueue_many(store, 5)
    jobs = await claim(store, await register(store), limit=4)
    given_back, again, asleep, dead = jobs
    await store.finish_jobs(
        [
            interrupted(given_back.id, given_back.claim),
            retried(again.id, again.claim, FAILURE, 0),
            crashed(dead.id, dead.claim, FAILURE),
        ]
    )
    await settle(store, snoozed(asleep.id, asleep.claim, 0))
    order = [job.id for job in await claim(store, await register(store))]
    assert order == [ids[0], ids[3], ids[4], ids[1], ids[2]]


async def test_the_time_of_the_start_is_kept_from_the_start_or_the_finish(store: Store, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(seconds=10)
    assert await store.start_jobs([Started(job.id, job.claim, 4_000)]) == [Verdict.DONE]
    began = clock.now - timedelta(seconds=4)
    assert (await read(store, job.id)).started_at == began
    await clock.advance(seconds=10)
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert done.started_at == began


@pytest.mark.guards("finish-fence", "start-fence")
async def test_a_start_is_fenced(store: Store) -> None:
    job = await running(store)
    other = await enqueue(store)
    starts = [Started(other, 1, 0), Started(job.id, job.claim, 0), Started(job.id + 1, 1, 0)]
    assert await store.start_jobs(starts) == [Verdict.LOST, Verdict.DONE, Verdict.LOST]
    assert await store.start_jobs([Started(job.id, job.claim + 1, 0)]) == [Verdict.LOST]
    await settle(store, interrupted(job.id, job.claim))
    assert await store.start_jobs([Started(job.id, job.claim, 0)]) == [Verdict.LOST]


async def test_a_claim_begins_unstarted(store: Store) -> None:
    job = await running(store)
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await settle(store, interrupted(job.id, job.claim))
    assert (await claim_one(store)).started_at is None


# ---- the log -------------------------------------------------------------------------------------------------------


async def test_ended_claims_are_in_the_log_and_folded_into_the_finished_job(store: Store, clock: Clock) -> None:
    first = await running(store)
    claimed_at = clock.now
    await clock.advance(seconds=3)
    await settle(store, retried(first.id, first.claim, FAILURE, 0, started_ago_ms=1_000))
    second = await claim_one(store)
    await clock.advance(seconds=1)
    waiting = await settle(store, snoozed(second.id, second.claim, 0))
    assert waiting is not None
    log = waiting.attempts
    assert [(entry.claim, entry.attempt, entry.outcome) for entry in log] == [(1, 1, "retry"), (2, 2, "snooze")]
    assert (log[0].worker, log[1].worker) == (first.worker, second.worker)
    assert (log[0].claimed_at, log[0].ended_at) == (claimed_at, claimed_at + timedelta(seconds=3))
    assert (log[0].started_at, log[1].started_at) == (claimed_at + timedelta(seconds=2), None)
    assert (log[0].error_class, log[0].error) == (FAILURE.error_class, FAILURE.message)
    assert (log[0].traceback, log[1].traceback, log[1].error) == (FAILURE.traceback, None, None)
    third = await claim_one(store)
    done = await settle(store, completed(third.id, third.claim))
    assert done is not None
    assert done.attempts == log


async def test_the_log_keeps_the_last_hundred_claims_and_the_last_tracebacks(store: Store) -> None:
    job_id = await enqueue(store)
    worker = await register(store)
    (job,) = await claim(store, worker)
    for number in range(1, 106):
        failure = Failure("E", f"failure {number}", f"traceback {number}", "E")
        worked = await store.finish_jobs([retried(job.id, job.claim, failure, 0)], claim=claim_of(worker))
        (job,) = worked.claimed
    assert job.claim == 106
    assert len((await read(store, job_id)).attempts) <= 100
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert len(done.attempts) == 100
    assert [entry.claim for entry in done.attempts] == list(range(6, 106))
    assert done.attempts[-1].error == "failure 105"
    with_traceback = [entry.claim for entry in done.attempts if entry.traceback]
    assert with_traceback == list(range(106 - len(with_traceback), 106))
    assert 9 <= len(with_traceback) <= 10


# ---- how long it is kept -------------------------------------------------------------------------------------------

FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)
POLICY = keeping(completed_ms=1_000, completed_with_errors_ms=2_000, failed_ms=None, cancelled_ms=86_400_000)


def _end_of(job: JobRow, state: JobState) -> Transition:
    ending = next(ending for ending, target in ENDINGS.values() if target is state)
    return ending(job.id, job.claim)


@pytest.mark.parametrize(
    "state, days",
    [
        (JobState.COMPLETED, 7),
        (JobState.COMPLETED_WITH_ERRORS, 7),
        (JobState.FAILED, 30),
        (JobState.CANCELLED, 7),
    ],
)
async def test_finished_jobs_are_kept_a_week_and_dead_letters_a_month(
    store: Store, clock: Clock, state: JobState, days: int
) -> None:
    job = await running(store)
    await clock.advance(seconds=5)
    done = await settle(store, _end_of(job, state))
    assert done is not None
    assert done.delete_at == clock.now + timedelta(days=days)


@pytest.mark.parametrize(
    "state, kept",
    [
        (JobState.COMPLETED, timedelta(seconds=1)),
        (JobState.COMPLETED_WITH_ERRORS, timedelta(seconds=2)),
        (JobState.FAILED, None),
        (JobState.CANCELLED, timedelta(days=1)),
    ],
)
async def test_the_policy_of_a_queue_says_how_long(
    store: Store, clock: Clock, state: JobState, kept: timedelta | None
) -> None:
    await store.define_queues({"default": POLICY})
    job = await running(store)
    done = await settle(store, _end_of(job, state))
    assert done is not None
    assert done.delete_at == (FOR_EVER if kept is None else clock.now + kept)


async def test_a_changed_policy_holds_for_jobs_that_finish_from_then_on(store: Store, clock: Clock) -> None:
    before = await running(store)
    done = await settle(store, completed(before.id, before.claim))
    await store.define_queues({"default": POLICY})
    assert await read(store, before.id) == done
    after = await running(store)
    done = await settle(store, completed(after.id, after.claim))
    assert done is not None
    assert done.delete_at == clock.now + timedelta(seconds=1)


async def test_a_new_life_forgets_when_it_was_to_be_deleted(store: Store) -> None:
    job = await running(store)
    await settle(store, failed(job.id, job.claim, FAILURE))
    assert await retry(store, job.id) is Answer.DONE
    assert (await read(store, job.id)).delete_at is None
