"""Counts of live jobs by queue and state, which stop counting at a cap."""

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Count
from tests.support import raw
from tests.support.builders import enqueue, enqueue_many, finished, running

CAP = 10_001


async def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert await store.count_jobs() == []


async def test_live_jobs_are_counted_by_queue_and_state_and_finished_ones_are_not(store: Store) -> None:
    await finished(store, JobState.COMPLETED)
    await finished(store, JobState.CANCELLED, queue="other")
    await running(store)
    await enqueue_many(store, 2)
    await enqueue(store, priority=0)  # another lane of the same queue
    await enqueue(store, delay_ms=60_000)
    await enqueue_many(store, 3, queue="other")
    await enqueue_many(store, 2, queue="other", delay_ms=60_000)
    counts = await store.count_jobs()
    assert sorted(counts, key=lambda count: (count.queue, count.state)) == [
        Count("default", JobState.QUEUED, 3, capped=False),
        Count("default", JobState.RUNNING, 1, capped=False),
        Count("default", JobState.SCHEDULED, 1, capped=False),
        Count("other", JobState.QUEUED, 3, capped=False),
        Count("other", JobState.SCHEDULED, 2, capped=False),
    ]


async def test_parked_jobs_are_counted_too(store: Store) -> None:
    held, blocked, other = await enqueue_many(store, 3)
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'held', position = NULL WHERE id IN ({held}, {other})")
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'blocked', position = NULL WHERE id = {blocked}")
    assert {(count.state, count.jobs) for count in await store.count_jobs()} == {
        (JobState.HELD, 2),
        (JobState.BLOCKED, 1),
    }


async def test_a_long_queue_is_counted_up_to_the_cap_and_says_so(store: Store) -> None:
    await enqueue_many(store, CAP - 1, queue="long")
    await enqueue_many(store, 3, queue="short")
    short = Count("short", JobState.QUEUED, 3, capped=False)
    assert await store.count_jobs() == [Count("long", JobState.QUEUED, CAP - 1, capped=False), short]
    await enqueue_many(store, 2, queue="long")
    assert await store.count_jobs() == [Count("long", JobState.QUEUED, CAP, capped=True), short]


async def test_many_scheduled_jobs_are_counted_up_to_the_cap_and_say_so(store: Store) -> None:
    await enqueue_many(store, CAP + 1, delay_ms=60_000)
    assert await store.count_jobs() == [Count("default", JobState.SCHEDULED, CAP, capped=True)]
