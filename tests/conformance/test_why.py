"""Why a job is not running: one true sentence for every reason, on every store."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast import public_id
from holdfast.client.why import ahead_of, explain, span
from holdfast.job import JobState
from holdfast.resources.job_parts import Why
from holdfast.stores.cluster import LockRequest
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.stores.values import Started, WorkerProcess
from holdfast.transitions import retried
from holdfast.why import Reason
from tests.support import raw
from tests.support.builders import (
    FAILURE,
    claim,
    enqueue,
    enqueue_many,
    finished,
    lane,
    register,
    running,
    settle,
)
from tests.support.clock import START, Clock


async def why(store: Store, job_id: int, **asked: Any) -> Why:
    """Ask, twice: the answer is the same."""
    found, again = await store.explain_job(job_id), await store.explain_job(job_id)
    assert found is not None
    assert again is not None
    answer = explain(found, **asked)
    assert answer == explain(again, **asked)
    return answer


async def worker_of(store: Store, slots: int, *, queues: tuple[str, ...] = ("default",), instance: str = "i") -> int:
    """Enter a worker that takes jobs of queues."""
    info = WorkerProcess(instance=instance, host="web-1", pid=7, queues=queues, concurrency=slots)
    return await store.register_worker(info, 3_600_000)


async def test_there_is_no_such_job(store: Store) -> None:
    assert await store.explain_job(17) is None


# ---- ended and running -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state, sentence",
    [
        (JobState.COMPLETED, "completed, 3 s ago, on attempt 1"),
        (JobState.COMPLETED_WITH_ERRORS, "completed, and some of its items failed, 3 s ago, on attempt 1"),
        (JobState.FAILED, "failed with SomeError: it went wrong, 3 s ago, on attempt 1"),
        (JobState.CANCELLED, "was cancelled, 3 s ago, on attempt 0"),
    ],
)
async def test_it_has_ended(store: Store, clock: Clock, state: JobState, sentence: str) -> None:
    job = await finished(store, state)
    await clock.advance(seconds=3)
    assert await why(store, job.id) == Why(Reason.FINISHED, sentence, {"state": state.value, "attempt": job.attempt})


async def test_it_is_in_the_buffer_of_a_worker_or_runs(store: Store, clock: Clock) -> None:
    worker = await worker_of(store, 4)
    job = await running(store, worker)
    await clock.advance(seconds=2)
    answer = await why(store, job.id)
    assert answer.reason is Reason.BUFFERED
    assert answer.sentence == f"worker {worker} (web-1, process 7) took it 2 s ago and has not started it yet"
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await clock.advance(minutes=4, seconds=10)
    answer = await why(store, job.id)
    assert (answer.reason, answer.sentence) == (
        Reason.RUNNING,
        f"runs for 4 min 10 s on worker {worker} (web-1, process 7)",
    )
    await store.cancel_jobs([job.id], actor="bob", reason="late")
    await clock.advance(seconds=1)
    assert (await why(store, job.id)).sentence.endswith("; it was asked to stop 1 s ago by bob: late")


async def test_its_worker_is_gone(store: Store, clock: Clock) -> None:
    job = await running(store, await register(store, lease_ms=1_000))
    await clock.advance(seconds=2)
    answer = await why(store, job.id)
    assert answer.reason is Reason.WORKER_LOST
    assert answer.sentence.endswith("had it and is gone: it will be rescued in a moment")


async def test_its_handler_waits_for_a_lock(store: Store, clock: Clock) -> None:
    worker = await worker_of(store, 4)
    first, second = await enqueue_many(store, 2)
    jobs = {job.id: job for job in await claim(store, worker)}
    await store.start_jobs([Started(job.id, job.claim, 0) for job in jobs.values()])
    for job_id in (first, second):
        asked = LockRequest("edition", f"o{job_id}", f"c{job_id}", "here", worker, job_id, jobs[job_id].claim)
        await store.take_lock(asked, lasts_ms=60_000, waits_ms=60_000)
    answer = await why(store, second)
    assert answer.reason is Reason.LOCK
    assert answer.sentence.endswith(f" and waits for the lock edition, which job {public_id.encode(first)} holds")
    assert (await why(store, first)).reason is Reason.RUNNING


async def test_it_was_ended_by_force_and_keeps_what_it_had(store: Store, clock: Clock) -> None:
    job = await finished(store, JobState.CANCELLED)
    columns, values = "limit_name, key, n, job_id, claim, worker", f"'tenant', 'a', 1, {job.id}, 1, 1"
    await raw.execute(store, f"INSERT INTO holdfast.slots ({columns}) VALUES ({values})")
    await clock.advance(seconds=5)
    answer = await why(store, job.id)
    assert answer.reason is Reason.STOPPING
    assert answer.sentence == "was cancelled, 5 s ago, but its handler may still be at work and keeps limit tenant"


# ---- waiting ---------------------------------------------------------------------------------------------------------


async def test_it_is_due_later(store: Store, clock: Clock) -> None:
    job = await enqueue(store, delay_ms=240_000)
    answer = await why(store, job)
    assert (answer.reason, answer.sentence) == (Reason.SCHEDULED, "is due in 4 min")
    skewed = await why(store, job, ahead=timedelta(seconds=90))
    assert skewed.sentence == "is due in 4 min by the store's clock (this machine's is 1 min 30 s ahead of it)"
    behind = await why(store, job, ahead=timedelta(seconds=-3))
    assert behind.sentence == "is due in 4 min by the store's clock (this machine's is 3 s behind it)"
    await clock.advance(minutes=5)
    assert (await why(store, job)).sentence == (
        "was due 1 min ago, and no process that runs the services has queued it yet;"
        " no living worker takes jobs of queue default"
    )


async def test_it_is_due_for_its_next_attempt(store: Store, clock: Clock) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, 30_000))
    assert (await why(store, job.id)).sentence == "is due in 30 s, after attempt 1 ended with SomeError: it went wrong"


async def test_its_queue_is_paused_or_closed(store: Store, clock: Clock) -> None:
    job = await enqueue(store)
    await store.pause_queue("default", actor="eve", reason="disk full")
    await clock.advance(hours=2)
    answer = await why(store, job)
    assert (answer.reason, answer.sentence) == (
        Reason.PAUSED,
        "its queue default was paused 2 h ago by eve: disk full",
    )
    await store.resume_queue("default")
    until = (clock.now + timedelta(seconds=40)).isoformat()
    closed = f"'{until}'" if hasattr(store, "fetch_sql") else round((clock.now.timestamp() + 40) * 1_000)
    await raw.execute(store, f"UPDATE holdfast.queues SET closed_until = {closed}")
    answer = await why(store, job)
    assert answer.reason is Reason.CLOSED
    assert answer.sentence == "its queue default is closed for another 40 s: a handler was told to slow down"
    await clock.advance(seconds=41)
    assert (await why(store, job)).reason is Reason.NO_WORKER


async def test_it_waits_for_other_jobs(store: Store) -> None:
    job = await enqueue(store)
    await raw.execute(
        store, f"UPDATE holdfast.jobs SET state = 'blocked', position = NULL, pending = 3 WHERE id = {job}"
    )
    assert (await why(store, job)) == Why(Reason.BLOCKED, "waits for 3 other jobs", {"pending": 3})


async def test_nobody_takes_jobs_of_its_queue(store: Store, clock: Clock) -> None:
    job = await enqueue(store)
    await worker_of(store, 4, queues=("other",))
    gone = await register(store, lease_ms=1_000)
    await clock.advance(seconds=2)
    assert gone
    answer = await why(store, job)
    assert answer.reason is Reason.NO_WORKER
    assert answer.sentence == "may run, but no living worker takes jobs of queue default"


async def test_no_worker_knows_its_kind(store: Store) -> None:
    job = await enqueue(store, kind="strange")
    worker = await worker_of(store, 4)
    assert (await why(store, job)).reason is Reason.READY, "a worker that has not told may know it"
    await store.note_policies(worker, '{"kinds.other": "0a"}')
    answer = await why(store, job)
    assert answer.reason is Reason.UNKNOWN_KIND
    assert answer.sentence == "may run, but none of the 1 worker process of queue default has a task for strange"
    await store.note_policies(worker, '{"kinds.strange": "0a"}')
    assert (await why(store, job)).reason is Reason.READY


async def test_all_slots_are_busy_and_others_come_first(store: Store, clock: Clock) -> None:
    worker = await worker_of(store, 2)
    jobs = await enqueue_many(store, 5)
    answer = await why(store, jobs[2])
    assert (answer.reason, answer.sentence) == (
        Reason.READY,
        "it may run, 2 jobs are before it in its lane; 0 of 2 slots of the 1 worker process of queue default are busy",
    )
    await claim(store, worker, limit=2)
    answer = await why(store, jobs[2])
    assert (answer.reason, answer.sentence) == (
        Reason.BUSY,
        "it may run, first in its lane; all 2 slots of the 1 worker process of queue default are busy",
    )
    assert (await why(store, jobs[3])).details == {
        "queue": "default",
        "priority": 5,
        "ahead": 1,
        "workers": 1,
        "slots": 2,
        "running": 2,
    }


async def test_its_queue_has_as_many_workers_as_it_may(store: Store) -> None:
    worker = await worker_of(store, 9)
    await store.resume_queue("default")
    await raw.execute(store, """UPDATE holdfast.queues SET definition = '{"workers": 2}' WHERE name = 'default'""")
    jobs = await enqueue_many(store, 3)
    await claim(store, worker, limit=2)
    answer = await why(store, jobs[2])
    assert answer.reason is Reason.BUSY
    assert answer.sentence == (
        "it may run, first in its lane; queue default runs 2 jobs, as many as its 2 workers in 1 instances may"
    )


# ---- held ------------------------------------------------------------------------------------------------------------


async def hold(store: Store, limit: LimitRow, *jobs: int) -> None:
    """Put a limit in force, and park jobs under it as a claim does."""
    await store.define_limits([limit], ["default"])
    for job in jobs:
        await raw.execute(
            store, f"UPDATE holdfast.jobs SET state = 'held', limit_key = '{limit.name}/a' WHERE id = {job}"
        )


async def test_its_limit_is_full(store: Store, clock: Clock) -> None:
    """As it happens: the limit is taken by a claim, which parks the rest."""
    limit = LimitRow(name="tenant", queue="default", path=("payload", "tenant"), concurrency=2)
    await store.define_limits([limit], ["default"])
    jobs = await enqueue_many(store, 5, payload='{"tenant": "acme"}')
    worker = await worker_of(store, 9)
    taken = await claim(store, worker)
    assert [job.id for job in taken] == jobs[:2]
    answer = await why(store, jobs[3])
    first, second = (public_id.encode(job) for job in jobs[:2])
    assert answer.reason is Reason.LIMIT
    assert answer.sentence == (
        f"all 2 slots of the limit tenant for acme are taken by job {first} (work), job {second} (work);"
        " 1 job is before it"
    )
    assert answer.details == {
        "limit": "tenant",
        "key": "acme",
        "ahead": 1,
        "taken": 2,
        "of": 2,
        "holders": [first, second],
    }


async def test_a_slot_belongs_to_a_job_that_was_ended_by_force(store: Store, clock: Clock) -> None:
    job = await enqueue(store)
    gone = await finished(store, JobState.CANCELLED)
    await hold(store, LimitRow(name="one", queue="default", concurrency=1), job)
    await raw.execute(store, f"UPDATE holdfast.jobs SET limit_key = 'one/' WHERE id = {job}")
    await raw.execute(
        store, f"INSERT INTO holdfast.slots (limit_name, key, n, job_id, claim) VALUES ('one', '', 1, {gone.id}, 1)"
    )
    assert (await why(store, job)).sentence == (
        f"all 1 slots of the limit one are taken by job {public_id.encode(gone.id)},"
        " which has ended by force and is stopping"
    )


async def test_starts_are_spaced(store: Store, clock: Clock) -> None:
    jobs = await enqueue_many(store, 3)
    await store.define_limits([LimitRow(name="slow", queue="default", throttle_us=10_000_000)], ["default"])
    await claim(store, await worker_of(store, 9))
    answer = await why(store, jobs[2])
    assert (answer.reason, answer.sentence) == (
        Reason.THROTTLE,
        "starts of slow are 10 s apart, the next start is in 10 s; 1 job is before it",
    )


async def test_jobs_of_its_key_run_one_after_the_other(store: Store, clock: Clock) -> None:
    await store.define_limits([LimitRow(name="row", queue="default", fifo=True)], ["default"])
    jobs = await enqueue_many(store, 3)
    await claim(store, await worker_of(store, 9))
    answer = await why(store, jobs[2])
    assert answer.reason is Reason.FIFO
    assert answer.sentence == (
        f"comes after job {public_id.encode(jobs[0])}, which is the first of row, where jobs run one after the other"
    )


async def test_keys_take_turns(store: Store) -> None:
    job = await enqueue(store)
    await hold(store, LimitRow(name="fair", queue="default", rotate=True), job)
    answer = await why(store, job)
    assert answer.reason is Reason.ROTATION
    assert answer.sentence == "keys of fair take turns: it joins its lane when others of a have run"


async def test_its_limit_is_free_or_gone(store: Store) -> None:
    job = await enqueue(store)
    await hold(store, LimitRow(name="wide", queue="default", concurrency=5), job)
    assert (await why(store, job)).sentence == "is held for the limit wide for a, which lets it go in a moment"
    await raw.execute(store, "DELETE FROM holdfast.limits")
    assert (await why(store, job)).sentence == "is held for wide/a, which is no more: it is let go in a moment"


async def test_its_budget_is_spent(store: Store, clock: Clock) -> None:
    job = await enqueue(store, payload='{"tenant": "acme"}')
    later = (clock.now + timedelta(hours=5)).isoformat()
    moment = f"'{later}'" if hasattr(store, "fetch_sql") else round((clock.now.timestamp() + 5 * 3_600) * 1_000)
    begun = f"'{clock.now.isoformat()}'" if hasattr(store, "fetch_sql") else round(clock.now.timestamp() * 1_000)
    is_remote = hasattr(store, "fetch_sql")
    path, kinds = ("'{payload,tenant}'", "'{}'") if is_remote else ("""'["payload","tenant"]'""", "'[]'")
    await raw.execute(store, "DELETE FROM holdfast.budgets")
    await raw.execute(store, "DELETE FROM holdfast.budget_periods")
    await raw.execute(
        store,
        "INSERT INTO holdfast.budgets"
        " (name, definition, unit, ceiling, period, tz, kinds, path, thresholds, changed_at)"
        f" VALUES ('ai', '{{}}', 'usd', 500000000, 'day', 'UTC', {kinds}, {path}, '[]', {begun})",
    )
    await raw.execute(
        store,
        "INSERT INTO holdfast.budget_periods (budget, key, starts_at, ends_at, spent, reserved, lost)"
        f" VALUES ('ai', 'acme', {begun}, {moment}, 499000000, 250000, 1000000)",
    )
    held = f"UPDATE holdfast.jobs SET state = 'held', position = NULL, run_at = {moment}"
    await raw.execute(store, f"{held}, limit_key = 'budget:ai' WHERE id = {job}")
    answer = await why(store, job)
    assert (answer.reason, answer.sentence) == (
        Reason.BUDGET,
        "the budget ai for acme has spent $500.00 of $500.00: it waits 5 h for the next period",
    )
    await raw.execute(store, f"{held}, limit_key = 'budget:ai room' WHERE id = {job}")
    assert (await why(store, job)).sentence == (
        "the budget ai for acme has $0.25 set aside for running jobs beside $500.00 of $500.00 spent;"
        " it is looked at again in 5 h"
    )


# ---- words -----------------------------------------------------------------------------------------------------------


def test_the_skew_of_clocks_is_told_when_it_is_certain() -> None:
    here = START
    assert ahead_of(here, here + timedelta(seconds=5), here - timedelta(seconds=1)) == timedelta()
    assert ahead_of(here, here, here - timedelta(seconds=3)) == timedelta(seconds=3)
    assert ahead_of(here, here + timedelta(seconds=1), here + timedelta(seconds=4)) == timedelta(seconds=-3)


@pytest.mark.parametrize(
    "seconds, said",
    [(0.25, "250 ms"), (1, "1 s"), (61, "1 min 1 s"), (3_605, "1 h"), (90_000, "1 d 1 h"), (-4, "0 ms")],
)
def test_lengths_are_told_in_at_most_two_units(seconds: float, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


async def test_a_held_job_can_be_moved_to_another_lane(store: Store) -> None:
    first, second = await enqueue_many(store, 2)
    await hold(store, LimitRow(name="wide", queue="default", concurrency=5), first)
    (answered,) = await store.reprioritise_jobs([first], 0)
    assert answered.state is JobState.HELD
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'queued', limit_key = NULL WHERE id = {first}")
    taken = await claim(store, await worker_of(store, 9), lane(priority=0), lane(priority=5))
    assert [job.id for job in taken] == [first, second]
