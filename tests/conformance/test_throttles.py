"""Starts are spaced as their throttle says; whoever has no permit soon waits, and goes on in time."""

from itertools import pairwise

from holdfast.job import JobRow, JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.transitions import throttled
from tests.support import limits as limiting
from tests.support.builders import claim, enqueue, enqueue_many, lane, read, register, settle, state_of
from tests.support.clock import Clock
from tests.support.limits import TENANT, complete, of

STEP_MS = 20


def permits(jobs: list[JobRow]) -> list[float]:
    """When jobs may start, in milliseconds."""
    return [job.extra["permit_at"] / 1_000 for job in jobs]


async def test_permits_are_spaced_and_given_at_most_a_moment_ahead(store: Store, clock: Clock) -> None:
    await limiting.limit(store, throttle_us=STEP_MS * 1_000)
    ids = await enqueue_many(store, 20)
    worker = await register(store)
    taken = await claim(store, worker)
    assert [job.id for job in taken] == ids[:6]
    now = clock.now.timestamp() * 1_000
    assert permits(taken) == [now + n * STEP_MS for n in range(6)]
    assert await state_of(store, ids[6]) is JobState.HELD
    assert await claim(store, worker) == []


async def test_promotion_lets_as_many_go_on_as_permits_come_due_and_says_when(store: Store, clock: Clock) -> None:
    await limiting.limit(store, throttle_us=STEP_MS * 1_000)
    await enqueue_many(store, 200)
    worker = await register(store)
    taken = await claim(store, worker)
    waited = 0
    while len(taken) < 100:
        promoted = await store.promote_jobs(100)
        assert promoted.next_due_ms is not None
        taken += await claim(store, worker)
        await clock.advance(milliseconds=max(promoted.next_due_ms, 1))
        waited += max(promoted.next_due_ms, 1)
    times = permits(taken)
    assert all(round(later - earlier) == STEP_MS for earlier, later in pairwise(times))  # none is lost, none is early
    assert waited > 60 * STEP_MS


async def test_a_burst_may_start_together_and_then_they_are_spaced(store: Store, clock: Clock) -> None:
    await limiting.limit(store, throttle_us=1_000_000, burst=3)
    ids = await enqueue_many(store, 5)
    worker = await register(store)
    assert [job.id for job in await claim(store, worker)] == ids[:3]
    await clock.advance(seconds=1)
    await store.promote_jobs(100)
    assert [job.id for job in await claim(store, worker)] == ids[3:4]


async def test_each_key_has_a_pace_of_its_own(store: Store, clock: Clock) -> None:
    await limiting.limit(store, path=TENANT, throttle_us=60_000_000)
    a, b = [await of(store, "a") for _ in range(2)], [await of(store, "b") for _ in range(2)]
    worker = await register(store)
    assert [job.id for job in await claim(store, worker)] == [a[0], b[0]]
    usage = await store.limit_usage("tenants", "a")
    assert usage is not None
    assert usage.next_at is not None
    assert (usage.next_at - clock.now).total_seconds() == 60
    assert usage.held == 1


async def test_a_slot_that_was_taken_in_vain_is_free(store: Store) -> None:
    limits = [
        LimitRow(name="pace", queue="default", throttle_us=60_000_000),
        LimitRow(name="slots", queue="default", concurrency=2),
    ]
    await store.define_limits(limits, ["default"])
    await enqueue_many(store, 3)
    assert len(await claim(store, await register(store))) == 1
    usage = await store.limit_usage("slots")
    assert usage is not None
    assert usage.taken == 1


async def test_a_permit_is_used_once(store: Store) -> None:
    await limiting.limit(store, throttle_us=1_000)
    await enqueue(store)
    worker = await register(store)
    (job,) = await claim(store, worker)
    assert "permit_at" in job.extra
    await store.define_limits([], [])
    await store.give_back_batch(worker, job.claim_batch or 0)
    await limiting.limit(store, concurrency=1)
    (again,) = await claim(store, worker)
    assert "permit_at" not in again.extra


async def test_a_handler_that_is_told_to_slow_down_lets_its_whole_queue_rest(store: Store, clock: Clock) -> None:
    first, second = await enqueue_many(store, 2)
    other = await enqueue(store, queue="other")
    worker = await register(store)
    (job,) = await claim(store, worker, limit=1)
    settled = await settle(store, throttled(job.id, job.claim, 30_000))
    assert settled is not None
    assert (settled.id, settled.state, settled.attempt) == (first, JobState.SCHEDULED, 0)
    assert [one.id for one in await claim(store, worker, lane(), lane("other"))] == [other]
    await clock.advance(seconds=29)
    await store.promote_jobs(10)
    assert await claim(store, worker) == []
    await clock.advance(seconds=1)
    await store.promote_jobs(10)
    assert [one.id for one in await claim(store, worker)] == [second, first]
    assert [ended.outcome for ended in (await read(store, first)).attempts] == ["throttle"]


async def test_a_longer_rest_is_not_cut_short(store: Store, clock: Clock) -> None:
    await enqueue_many(store, 3)
    worker = await register(store)
    one, other, _third = await claim(store, worker)
    await settle(store, throttled(one.id, one.claim, 60_000))
    await settle(store, throttled(other.id, other.claim, 10_000))
    await clock.advance(seconds=30)
    await store.promote_jobs(10)
    assert await claim(store, worker) == []


async def test_slots_come_back_while_a_throttle_holds_others(store: Store, clock: Clock) -> None:
    await limiting.limit(store, throttle_us=1_000_000, concurrency=1)
    first, second = await enqueue_many(store, 2)
    worker = await register(store)
    taken = await claim(store, worker)
    assert [job.id for job in taken] == [first]
    await complete(store, *taken)
    await clock.advance(seconds=2)
    await store.promote_jobs(10)
    assert [job.id for job in await claim(store, worker)] == [second]
