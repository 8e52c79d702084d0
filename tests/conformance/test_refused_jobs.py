"""A job that the database refuses to end: it ends alone, and no other job waits for it."""

from collections.abc import AsyncIterator

import pytest

from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from holdfast.stores.values import Claim, Finish, Started, Verdict
from holdfast.transitions import completed, crashed, failed
from tests.support import raw
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim_of,
    end,
    enqueue,
    enqueue_many,
    lane,
    read,
    register,
)
from tests.support.clock import Clock

POISON = """'{"poison": true}'"""
# Another program has put a rule on the table of finished jobs.
RULES = {
    "postgres": (
        "ALTER TABLE holdfast.history ADD CONSTRAINT history_rule CHECK (NOT extra ? 'poison' AND priority <> 10)",
        "ALTER TABLE holdfast.history DROP CONSTRAINT history_rule",
    ),
    "sqlite": (
        """
        CREATE TRIGGER holdfast.rule BEFORE INSERT ON holdfast.history
        WHEN json_extract(new.extra, '$.poison') OR new.priority = 10
        BEGIN SELECT RAISE(ABORT, 'history_rule'); END
        """,
        "DROP TRIGGER holdfast.rule",
    ),
}


@pytest.fixture(autouse=True)
async def rule(store: Store) -> AsyncIterator[None]:
    """Let the database refuse some jobs when they end."""
    made, gone = RULES["postgres" if isinstance(store, PostgresStore) else "sqlite"]
    await raw.execute(store, made)
    yield
    await raw.execute(store, gone)


async def running_jobs(store: Store, *poisoned: int, priority: int = 5) -> list[JobRow]:
    """Let a worker hold five jobs that fail with their first crash; the database refuses the end of some of them."""
    ids = [await enqueue(store, max_crashes=1) for _ in range(5)]
    for place in poisoned:
        await raw.execute(
            store, f"UPDATE holdfast.jobs SET extra = {POISON}, priority = {priority} WHERE id = {ids[place]}"
        )
    worker = await register(store)
    jobs = {job.id: job for job in await store.claim_jobs(both_lanes(worker))}
    return [jobs[job_id] for job_id in ids]


def both_lanes(worker: int) -> Claim:
    return claim_of(worker, lane(), lane(priority=10))


def require_refused(job: JobRow) -> None:
    assert job.state is JobState.FAILED
    assert job.error_class == "DataRefused"
    assert "history_rule" in (job.error or "")
    assert job.extra.get("poison") is None


@pytest.mark.guards("refused-rescue")
async def test_a_refused_job_does_not_keep_others_from_being_rescued(store: Store, clock: Clock) -> None:
    jobs = await running_jobs(store, 1, 3)
    await started(store, jobs)
    await clock.advance(milliseconds=LEASE_MS + 1)
    rescued = await store.rescue_jobs(100)
    assert (rescued.workers, set(rescued.failed)) == (1, {job.id for job in jobs})
    found = [await read(store, job.id) for job in jobs]
    assert [job.error_class for job in found if job.id not in {jobs[1].id, jobs[3].id}] == ["WorkerLost"] * 3
    require_refused(found[1])
    require_refused(found[3])


async def test_the_late_end_of_a_refused_job_is_lost(store: Store, clock: Clock) -> None:
    jobs = await running_jobs(store, 1)
    await started(store, jobs)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(100)
    assert await end(store, completed(jobs[1].id, jobs[1].claim)) == Finish(Verdict.LOST, None)


async def test_a_job_that_cannot_be_ended_at_all_stays_alone(store: Store, clock: Clock) -> None:
    jobs = await running_jobs(store, 2, priority=10)
    await started(store, jobs)
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert len((await store.rescue_jobs(100)).failed) == 4
    assert (await read(store, jobs[2].id)).state is JobState.RUNNING
    assert (await store.rescue_jobs(100)).failed == ()


@pytest.mark.guards("refused-rescue")
async def test_a_refused_job_does_not_keep_others_from_being_released(store: Store) -> None:
    jobs = await running_jobs(store, 0)
    ends = [crashed(job.id, job.claim, FAILURE) for job in jobs]
    released = await store.release_worker(jobs[0].worker or 0, ends)
    assert set(released.failed) == {job.id for job in jobs}
    require_refused(await read(store, jobs[0].id))


@pytest.mark.guards("refused-rescue")
async def test_a_refused_job_does_not_keep_others_from_being_cancelled_by_force(store: Store, clock: Clock) -> None:
    jobs = await running_jobs(store, 4)
    await store.cancel_jobs([job.id for job in jobs], actor=None, reason=None)
    await clock.advance(seconds=31)
    assert set(await store.force_cancels(30_000, 100)) == {job.id for job in jobs}
    assert {(await read(store, job.id)).state for job in jobs} == {JobState.CANCELLED}


@pytest.mark.guards("refused-rescue")
async def test_a_refused_job_that_waits_can_be_cancelled_among_others(store: Store) -> None:
    ids = await enqueue_many(store, 3)
    await raw.execute(store, f"UPDATE holdfast.jobs SET extra = {POISON} WHERE id = {ids[1]}")
    answers = await store.cancel_jobs(ids, actor="ada", reason=None)
    assert [answer.answer for answer in answers] == [Answer.DONE] * 3
    assert [(await read(store, job_id)).state for job_id in ids] == [JobState.CANCELLED] * 3


async def test_a_job_that_cannot_be_cancelled_is_answered_so(store: Store) -> None:
    ids = await enqueue_many(store, 3)
    await raw.execute(store, f"UPDATE holdfast.jobs SET priority = 10 WHERE id = {ids[1]}")
    answers = await store.cancel_jobs(ids, actor=None, reason=None)
    assert [answer.answer for answer in answers] == [Answer.DONE, Answer.WRONG_STATE, Answer.DONE]
    assert answers[1].state is JobState.QUEUED


async def test_a_worker_that_retires_gives_the_others_back(store: Store) -> None:
    jobs = await running_jobs(store, 1)
    await cancel(store, jobs[1].id)  # which its end makes of it
    assert await store.retire_worker(jobs[0].worker or 0) == 5
    assert [(await read(store, job.id)).state for job in jobs if job is not jobs[1]] == [JobState.QUEUED] * 4
    assert (await read(store, jobs[1].id)).is_finished


async def test_the_last_form_of_an_end_can_be_sent_again(store: Store) -> None:
    job = (await running_jobs(store, 1))[1]
    end_of_it = failed(job.id, job.claim, FAILURE)
    assert await store.fail_refused(end_of_it) == Finish(Verdict.DONE, JobState.FAILED)
    assert await store.fail_refused(end_of_it) == Finish(Verdict.ALREADY, JobState.FAILED)
    kept = await read(store, job.id)
    assert (kept.error_class, kept.error, kept.attempt) == (FAILURE.error_class, FAILURE.message, 1)


async def test_the_last_form_of_an_end_is_fenced(store: Store) -> None:
    job = (await running_jobs(store, 1))[1]
    assert await store.fail_refused(failed(job.id, job.claim + 1, FAILURE)) == Finish(Verdict.LOST, None)
    assert (await read(store, job.id)).extra == {"poison": True}


async def started(store: Store, jobs: list[JobRow]) -> None:
    """Let the handlers begin, so that the loss of their worker is a crash of theirs."""
    await store.start_jobs([Started(job.id, job.claim, 0) for job in jobs])
