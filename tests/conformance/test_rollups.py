"""Roll-ups: counts and histograms of many batches, merged when they are read."""

from datetime import timedelta

from holdfast.job import JobState
from holdfast.rollup import BUCKETS, Rollup
from holdfast.stores.store import Store
from holdfast.stores.values import Verdict
from holdfast.transitions import completed
from tests.support.builders import running
from tests.support.clock import Clock

A = Rollup("default", "work", JobState.COMPLETED, 3, {0: 1, 5: 2}, {7: 3})


async def test_nothing_counted_reads_as_nothing(store: Store, clock: Clock) -> None:
    assert await store.read_rollups(clock.now) == []


async def test_counts_travel_with_a_finish(store: Store, clock: Clock) -> None:
    job = await running(store)
    worked = await store.finish_jobs([completed(job.id, job.claim)], rollups=[A])
    assert worked.finishes[0].verdict is Verdict.DONE
    assert await store.read_rollups(clock.now - timedelta(minutes=1)) == [A]


async def test_counts_may_travel_alone(store: Store, clock: Clock) -> None:
    assert (await store.finish_jobs([], rollups=[A])).finishes == []
    assert await store.read_rollups(clock.now - timedelta(minutes=1)) == [A]


async def test_batches_of_the_same_kind_add_up_bucket_by_bucket(store: Store, clock: Clock) -> None:
    await store.finish_jobs([], rollups=[A, Rollup("default", "work", JobState.COMPLETED, 2, {5: 1, 43: 1}, {})])
    await clock.advance(minutes=5)
    await store.finish_jobs([], rollups=[Rollup("default", "work", JobState.COMPLETED, 1, {}, {7: 1})])
    since = clock.now - timedelta(hours=1)
    merged = Rollup("default", "work", JobState.COMPLETED, 6, {0: 1, 5: 3, BUCKETS - 1: 1}, {7: 4})
    assert await store.read_rollups(since) == [merged]


async def test_queues_kinds_and_states_are_counted_apart_and_read_in_order(store: Store, clock: Clock) -> None:
    other = [
        Rollup("high", "work", JobState.COMPLETED, 1, {1: 1}, {2: 1}),
        Rollup("default", "mail", JobState.FAILED, 1, {1: 1}, {}),
        Rollup("default", "work", JobState.FAILED, 1, {}, {}),
    ]
    await store.finish_jobs([], rollups=[*other, A])
    found = await store.read_rollups(clock.now - timedelta(minutes=1))
    assert found == [other[1], A, other[2], other[0]]


async def test_only_minutes_since_the_given_time_are_read(store: Store, clock: Clock) -> None:
    await store.finish_jobs([], rollups=[A])
    await clock.advance(hours=1)
    later = Rollup("default", "work", JobState.COMPLETED, 1, {9: 1}, {9: 1})
    await store.finish_jobs([], rollups=[later])
    assert await store.read_rollups(clock.now - timedelta(minutes=30)) == [later]
    assert await store.read_rollups(clock.now.replace(second=0)) == [later]
    assert await store.read_rollups(clock.now + timedelta(minutes=1)) == []


async def test_the_counts_of_one_queue_can_be_read_alone(store: Store, clock: Clock) -> None:
    other = Rollup("bulk", "work", JobState.FAILED, 2, {}, {3: 2})
    await store.finish_jobs([], rollups=[A, other])
    since = clock.now - timedelta(minutes=1)
    assert await store.read_rollups(since, "bulk") == [other]
    assert await store.read_rollups(since, "default") == [A]
    assert await store.read_rollups(since, "none") == []
    assert len(await store.read_rollups(since)) == 2
