"""`unique` holds per kind among live jobs; `unique_for` until a time after the enqueue, and while live."""

from datetime import timedelta

import pytest

from holdfast.job import TERMINAL, Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import completed, interrupted, retried, snoozed
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim_one,
    crash,
    end,
    enqueue,
    finished,
    insert,
    new_jobs,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock


async def taken_by(store: Store, job_id: int, **options: object) -> bool:
    """Whether an insert under the key is answered with the given job."""
    return await insert(store, **({"unique": "k"} | options)) == Inserted(Insertion.EXISTING, job_id)


async def test_the_second_job_of_a_live_key_is_answered_with_the_first(store: Store) -> None:
    first = await enqueue(store, unique="k")
    assert await taken_by(store, first)
    assert await taken_by(store, first, payload='{"other": 1}', queue="high", priority=0)


async def test_another_kind_or_key_or_none_does_not_clash(store: Store) -> None:
    await enqueue(store, unique="k")
    for options in ({"unique": "k", "kind": "other"}, {"unique": "K"}, {"unique": "k "}, {}, {}):
        await enqueue(store, **options)


async def test_within_one_call_the_first_of_a_key_is_created(store: Store) -> None:
    one, two, other = await new_jobs(store, 3, unique="k")
    answers = await store.insert_jobs([one, two, other])
    assert answers == [
        Inserted(Insertion.CREATED, one.id),
        Inserted(Insertion.EXISTING, one.id),
        Inserted(Insertion.EXISTING, one.id),
    ]
    assert await store.get_jobs([two.id, other.id]) == []


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_every_end_frees_the_key(store: Store, state: JobState) -> None:
    ended = await finished(store, state, unique="k")
    assert (ended.state, ended.unique_key) == (state, "k")
    again = await enqueue(store, unique="k")
    assert again != ended.id


async def test_a_running_job_holds_its_key(store: Store) -> None:
    job = await running(store, unique="k")
    assert await taken_by(store, job.id)


async def test_a_job_that_waits_for_its_retry_holds_its_key(store: Store) -> None:
    job = await running(store, unique="k")
    await settle(store, retried(job.id, job.claim, FAILURE, 1_000))
    assert await taken_by(store, job.id)


async def test_a_snoozed_job_holds_its_key(store: Store) -> None:
    job = await running(store, unique="k")
    await settle(store, snoozed(job.id, job.claim, 1_000))
    assert await taken_by(store, job.id)


async def test_a_job_given_back_holds_its_key(store: Store) -> None:
    job = await running(store, unique="k")
    await settle(store, interrupted(job.id, job.claim))
    assert await taken_by(store, job.id)


async def test_a_rescued_job_holds_its_key(store: Store, clock: Clock) -> None:
    job = await running(store, unique="k")
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert (await store.rescue_jobs(10)).requeued == (job.id,)
    assert await taken_by(store, job.id)


async def test_a_scheduled_job_holds_its_key_before_and_after_promotion(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, unique="k", delay_ms=1_000)
    assert await taken_by(store, job_id)
    await clock.advance(seconds=1)
    await store.promote_jobs(10)
    assert await taken_by(store, job_id)


async def test_a_job_marked_for_cancellation_holds_its_key_until_it_ends(store: Store) -> None:
    job = await running(store, unique="k")
    assert await cancel(store, job.id) is Answer.REQUESTED
    assert await taken_by(store, job.id)
    await end(store, completed(job.id, job.claim))
    await enqueue(store, unique="k")


async def test_a_new_life_takes_the_key_again(store: Store) -> None:
    ended = await finished(store, JobState.FAILED, unique="k")
    assert await retry(store, ended.id) is Answer.DONE
    assert await taken_by(store, ended.id)


async def test_a_job_sent_again_meets_its_own_key(store: Store) -> None:
    (given,) = await new_jobs(store, 1, unique="k", unique_for_ms=60_000)
    created = [Inserted(Insertion.CREATED, given.id)]
    assert await store.insert_jobs([given]) == created
    assert await store.insert_jobs([given], again=True) == created
    job = await claim_one(store)
    await settle(store, completed(job.id, job.claim))
    assert await store.insert_jobs([given], again=True) == created
    assert (await read(store, given.id)).state is JobState.COMPLETED


async def test_a_finished_job_sent_again_counts_as_created_though_its_key_has_a_new_holder(store: Store) -> None:
    (given,) = await new_jobs(store, 1, unique="k")
    await store.insert_jobs([given])  # its reply is lost
    job = await claim_one(store)
    await settle(store, completed(job.id, job.claim))
    await enqueue(store, unique="k")
    assert await store.insert_jobs([given], again=True) == [Inserted(Insertion.CREATED, given.id)]


# ---- unique_for ----------------------------------------------------------------------------------------------------


async def test_unique_for_holds_after_the_job_has_finished_until_its_time(store: Store, clock: Clock) -> None:
    job = await running(store, unique="k", unique_for_ms=60_000)
    await settle(store, completed(job.id, job.claim))
    await clock.advance(milliseconds=59_999)
    assert await taken_by(store, job.id, unique_for_ms=60_000)
    await clock.advance(milliseconds=1)
    assert await enqueue(store, unique="k", unique_for_ms=60_000) != job.id


async def test_unique_for_holds_beyond_its_time_while_the_job_lives(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store, unique="k", unique_for_ms=1_000)
    await clock.advance(hours=1)
    assert await taken_by(store, job_id, unique_for_ms=1_000)
    assert await taken_by(store, job_id)
    job = await claim_one(store)
    await settle(store, completed(job.id, job.claim))
    await enqueue(store, unique="k", unique_for_ms=1_000)


async def test_a_clash_does_not_prolong_unique_for(store: Store, clock: Clock) -> None:
    job = await running(store, unique="k", unique_for_ms=60_000)
    await settle(store, completed(job.id, job.claim))
    await clock.advance(seconds=40)
    assert await taken_by(store, job.id, unique_for_ms=60_000)
    await clock.advance(seconds=20)
    await enqueue(store, unique="k", unique_for_ms=60_000)


async def test_unique_for_that_met_a_plain_live_job_leaves_nothing_behind(store: Store) -> None:
    plain = await running(store, unique="k")
    assert await taken_by(store, plain.id, unique_for_ms=60_000)
    await settle(store, completed(plain.id, plain.claim))
    await enqueue(store, unique="k", unique_for_ms=60_000)


async def test_unique_for_holds_per_kind(store: Store) -> None:
    await enqueue(store, unique="k", unique_for_ms=60_000)
    await enqueue(store, unique="k", unique_for_ms=60_000, kind="other")


async def test_unique_for_within_one_call(store: Store) -> None:
    one, two = await new_jobs(store, 2, unique="k", unique_for_ms=60_000)
    answers = await store.insert_jobs([one, two])
    assert answers == [Inserted(Insertion.CREATED, one.id), Inserted(Insertion.EXISTING, one.id)]


async def test_unique_for_survives_retention_of_the_job(store: Store, clock: Clock) -> None:
    month = int(timedelta(days=30) / timedelta(milliseconds=1))
    job = await running(store, unique="k", unique_for_ms=month)
    await settle(store, completed(job.id, job.claim))
    await clock.advance(days=8)
    assert await store.get_jobs([job.id]) == []
    assert await taken_by(store, job.id, unique_for_ms=month)


async def test_a_crashed_job_holds_its_key(store: Store) -> None:
    job = await running(store, await register(store), unique="k")
    await crash(store, job)
    assert await taken_by(store, job.id)
