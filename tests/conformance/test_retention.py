"""What has outlived its retention is gone for every reader at once, and from the disk after upkeep."""

import pytest

from holdfast.job import TERMINAL, Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Insertion, JobFilter
from tests.support import raw
from tests.support.builders import enqueue, find, finished, insert, keeping, read, register, running
from tests.support.clock import Clock

DAYS = {state: 30 if state is JobState.FAILED else 7 for state in TERMINAL}
FOR_EVER = keeping(completed_ms=None, completed_with_errors_ms=None, failed_ms=None, cancelled_ms=None)


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_job_is_there_until_its_time_and_then_nobody_finds_it(
    store: Store, clock: Clock, state: JobState
) -> None:
    ended = await finished(store, state, tags={"t": "v"})
    await clock.advance(days=DAYS[state], milliseconds=-1)
    assert await find(store, ended.id) == ended
    await clock.advance(milliseconds=1)
    assert await find(store, ended.id) is None
    assert await store.finished_jobs([ended.id]) == []
    assert (await store.list_jobs(JobFilter(), limit=10)).jobs == []
    assert (await store.list_jobs(JobFilter(tags=(("t", "v"),)), limit=10)).jobs == []


async def test_no_verb_finds_an_expired_job(store: Store, clock: Clock) -> None:
    ended = await finished(store, JobState.CANCELLED)
    await clock.advance(days=8)
    for answers in (
        await store.cancel_jobs([ended.id], actor=None, reason=None),
        await store.retry_jobs([ended.id]),
        await store.delete_jobs([ended.id]),
        await store.reschedule_jobs([ended.id], run_at=None, delay_ms=0),
        await store.reprioritise_jobs([ended.id], 0),
    ):
        assert [answered.answer for answered in answers] == [Answer.NOT_FOUND]


async def test_upkeep_deletes_what_has_expired_and_nothing_else(store: Store, clock: Clock) -> None:
    await finished(store, JobState.COMPLETED)
    dead = await finished(store, JobState.FAILED)
    waiting, held = await enqueue(store, delay_ms=1), await running(store, await register(store))
    await clock.advance(days=15)  # a week for the job, and the rest of the week in which it may be deleted
    kept = await store.keep_history(100)
    assert kept.dropped + kept.deleted >= 1
    assert await read(store, dead.id) == dead
    assert len(await store.get_jobs([waiting, held.id])) == 2
    await raw.execute(store, "DELETE FROM holdfast.workers")
    again = await store.keep_history(100)
    assert (again.dropped, again.deleted) == (0, 0)


async def test_upkeep_of_an_empty_store_deletes_nothing(store: Store) -> None:
    kept = await store.keep_history(100)
    assert (kept.dropped, kept.deleted) == (0, 0)


async def test_a_job_kept_for_ever_is_there_after_a_century(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": FOR_EVER})
    ended = await finished(store, JobState.COMPLETED)
    await clock.advance(days=36_500)
    assert await find(store, ended.id) == ended


async def test_jobs_finish_however_far_the_clock_has_moved(store: Store, clock: Clock) -> None:
    await clock.advance(days=200)  # beyond every week that was made ahead
    ended = await finished(store, JobState.FAILED)
    assert await read(store, ended.id) == ended
    await clock.advance(days=31)
    assert await find(store, ended.id) is None


async def test_keys_are_pruned_when_they_have_expired(store: Store, clock: Clock) -> None:
    await enqueue(store, key="a")
    await enqueue(store, key="b")
    await clock.advance(hours=12)
    await enqueue(store, key="c")
    assert await store.prune_keys(10) == 0
    await clock.advance(hours=12)
    assert [await store.prune_keys(1) for _ in range(3)] == [1, 1, 0]
    assert (await insert(store, key="c")).outcome is Insertion.EXISTING
    await enqueue(store, key="a")


async def test_the_key_of_unique_for_is_pruned_too(store: Store, clock: Clock) -> None:
    await finished(store, JobState.COMPLETED, unique="u", unique_for_ms=1_000)
    assert await store.prune_keys(10) == 0
    await clock.advance(seconds=1)
    assert await store.prune_keys(10) == 1
