"""The number of a claim never repeats, whatever happens between two claims of a job."""

from collections.abc import Awaitable, Callable

import pytest

from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Finish, Verdict
from holdfast.transitions import completed, crashed, failed, interrupted, retried, snoozed
from tests.support.builders import FAILURE, LEASE_MS, cancel, claim_one, end, read, retry, running, settle
from tests.support.clock import Clock

Between = Callable[[Store, Clock, JobRow], Awaitable[object]]


async def give_back(store: Store, clock: Clock, job: JobRow) -> None:
    await settle(store, interrupted(job.id, job.claim))


async def give_back_the_batch(store: Store, clock: Clock, job: JobRow) -> None:
    assert await store.give_back_batch(job.worker or 0, job.claim_batch or 0) == 1


async def retire(store: Store, clock: Clock, job: JobRow) -> None:
    assert await store.retire_worker(job.worker or 0) == 1


async def snooze(store: Store, clock: Clock, job: JobRow) -> None:
    await settle(store, snoozed(job.id, job.claim, 0))


async def wait_for_a_retry(store: Store, clock: Clock, job: JobRow) -> None:
    await settle(store, retried(job.id, job.claim, FAILURE, 1_000))
    await clock.advance(seconds=1)
    await store.promote_jobs(10)


async def crash(store: Store, clock: Clock, job: JobRow) -> None:
    await settle(store, crashed(job.id, job.claim, FAILURE))


async def rescue(store: Store, clock: Clock, job: JobRow) -> None:
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert (await store.rescue_jobs(10)).requeued == (job.id,)


async def finish_and_retry(store: Store, clock: Clock, job: JobRow) -> None:
    await settle(store, failed(job.id, job.claim, FAILURE))
    assert await retry(store, job.id) is Answer.DONE


async def force_and_retry(store: Store, clock: Clock, job: JobRow) -> None:
    await cancel(store, job.id)
    assert await store.force_cancels(0, 10) == (job.id,)
    assert await retry(store, job.id) is Answer.DONE


async def reschedule(store: Store, clock: Clock, job: JobRow) -> None:
    await give_back(store, clock, job)
    await store.reschedule_jobs([job.id], run_at=None, delay_ms=0)


async def cancel_and_retry(store: Store, clock: Clock, job: JobRow) -> None:
    await give_back(store, clock, job)
    assert await cancel(store, job.id) is Answer.DONE
    assert await retry(store, job.id) is Answer.DONE


BETWEEN = (
    give_back,
    give_back_the_batch,
    retire,
    snooze,
    wait_for_a_retry,
    crash,
    rescue,
    finish_and_retry,
    force_and_retry,
    reschedule,
    cancel_and_retry,
)


@pytest.mark.parametrize("between", BETWEEN, ids=lambda between: between.__name__.replace("_", "-"))
async def test_the_next_claim_has_a_higher_number_and_refuses_the_one_before(
    store: Store, clock: Clock, between: Between
) -> None:
    old = await running(store)
    await between(store, clock, old)
    new = await claim_one(store)
    assert new.id == old.id
    assert new.claim > old.claim
    assert await end(store, completed(old.id, old.claim, '"stale"')) == Finish(Verdict.LOST, None)
    assert (await read(store, new.id)).state is JobState.RUNNING
    assert await end(store, completed(new.id, new.claim)) == Finish(Verdict.DONE, JobState.COMPLETED)


async def test_through_all_of_them_in_a_row_no_number_comes_twice(store: Store, clock: Clock) -> None:
    job = await running(store, max_crashes=1_000)
    seen = [job.claim]
    for between in BETWEEN:
        await between(store, clock, job)
        await clock.advance(hours=1)  # a second crash waits
        await store.promote_jobs(10)
        job = await claim_one(store)
        seen.append(job.claim)
    assert seen == sorted(set(seen))
    assert len(seen) == len(BETWEEN) + 1
