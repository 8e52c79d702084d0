"""How long the lanes are: measured by one, read by all."""

from datetime import timedelta

import pytest

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import LaneGauge
from tests.support import raw
from tests.support.builders import cancel, enqueue, enqueue_many, finished, read, running
from tests.support.clock import Clock

CAP = 10_001


@pytest.fixture(autouse=True)
async def _nothing_measured(store: Store) -> None:
    await raw.execute(store, "DELETE FROM holdfast.gauges")


def short(gauges: list[LaneGauge]) -> list[tuple[str, int, JobState, int]]:
    """Leave out the times."""
    return [(gauge.queue, gauge.priority, gauge.state, gauge.jobs) for gauge in gauges]


async def test_an_empty_store_has_no_lanes(store: Store) -> None:
    assert await store.read_gauges() == []
    assert await store.measure_lanes() == []


async def test_live_jobs_are_counted_by_lane_and_state(store: Store, clock: Clock) -> None:
    await finished(store, JobState.COMPLETED)
    await running(store)
    await enqueue_many(store, 2)
    await enqueue(store, priority=0)
    await enqueue(store, priority=10)
    await enqueue_many(store, 3, queue="a")
    await enqueue_many(store, 2, queue="z", priority=7, delay_ms=60_000)
    held, blocked = await enqueue_many(store, 2, queue="z", priority=1)
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'held', position = NULL WHERE id = {held}")
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'blocked', position = NULL WHERE id = {blocked}")
    assert await store.read_gauges() == [], "whoever reads does not count"
    measured = await store.measure_lanes()
    assert short(measured) == [
        ("a", 5, JobState.QUEUED, 3),
        ("default", 0, JobState.QUEUED, 1),
        ("default", 5, JobState.QUEUED, 2),
        ("default", 5, JobState.RUNNING, 1),
        ("default", 10, JobState.QUEUED, 1),
        ("z", 1, JobState.BLOCKED, 1),
        ("z", 1, JobState.HELD, 1),
        ("z", 7, JobState.SCHEDULED, 2),
    ]
    assert {gauge.measured_at for gauge in measured} == {clock.now}
    assert not any(gauge.capped for gauge in measured)
    assert await store.read_gauges() == measured


async def test_the_first_in_line_says_how_long_a_lane_waits(store: Store, clock: Clock) -> None:
    first = await enqueue(store)
    await clock.advance(seconds=7)
    await enqueue(store)
    await clock.advance(seconds=7)
    (gauge,) = await store.measure_lanes()
    assert gauge.oldest_at == clock.now - timedelta(seconds=14) == (await read(store, first)).run_at
    await cancel(store, first)
    (gauge,) = await store.measure_lanes()
    assert gauge.oldest_at == clock.now - timedelta(seconds=7)
    await enqueue(store, queue="later", delay_ms=60_000)
    assert (await store.measure_lanes())[1].oldest_at is None


async def test_a_lane_that_has_emptied_is_shown_for_a_day(store: Store, clock: Clock) -> None:
    job_id = await enqueue(store)
    await enqueue(store, queue="other")
    seen = clock.now
    await store.measure_lanes()
    await cancel(store, job_id)
    await clock.advance(hours=23)
    empty, other = await store.measure_lanes()
    assert empty == LaneGauge("default", 5, JobState.QUEUED, 0, False, None, seen)
    assert (other.jobs, other.measured_at) == (1, clock.now)
    await clock.advance(hours=1, seconds=1)
    assert [gauge.queue for gauge in await store.measure_lanes()] == ["other"]
    assert [gauge.queue for gauge in await store.read_gauges()] == ["other"]
    await enqueue(store)
    assert short(await store.measure_lanes())[0] == ("default", 5, JobState.QUEUED, 1)


async def test_a_long_lane_is_counted_up_to_the_cap_and_says_so(store: Store) -> None:
    await enqueue_many(store, CAP - 1, queue="long")
    await enqueue_many(store, 3, queue="short")
    assert [(gauge.jobs, gauge.capped) for gauge in await store.measure_lanes()] == [(CAP - 1, False), (3, False)]
    await enqueue_many(store, 2, queue="long")
    assert [(gauge.jobs, gauge.capped) for gauge in await store.measure_lanes()] == [(CAP, True), (3, False)]


async def test_of_a_sample_that_was_capped_every_lane_says_so(store: Store) -> None:
    """Only what may run has an index by lanes: of the others the first ones are dealt out."""
    await enqueue_many(store, 3, queue="soon", delay_ms=1_000)
    await enqueue_many(store, CAP, queue="late", delay_ms=60_000)
    await enqueue(store)
    assert [(gauge.queue, gauge.jobs, gauge.capped) for gauge in await store.measure_lanes()] == [
        ("default", 1, False),
        ("late", CAP - 3, True),
        ("soon", 3, True),
    ]
