"""Slots go straight from jobs that ended to those that the same call claims; what is left of them comes back."""

from holdfast.job import JobRow, JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.transitions import completed, snoozed
from tests.support import limits as limiting
from tests.support.builders import claim, claim_of, enqueue, lane, register, state_of
from tests.support.limits import TENANT, of


async def taken(store: Store, name: str = "tenants") -> int:
    """How many slots of a limit are held."""
    usage = await store.limit_usage(name)
    assert usage is not None
    return usage.taken


async def exchange(store: Store, worker: int, ended: list[JobRow], *, queue: str = "default") -> list[int]:
    """End claims well and take the next jobs in the same call."""
    ends = [completed(job.id, job.claim) for job in sorted(ended, key=lambda job: job.id)]
    worked = await store.finish_jobs(ends, claim=claim_of(worker, lane(queue)))
    return [job.id for job in worked.claimed]


async def test_the_next_jobs_have_the_slots_of_the_last(store: Store) -> None:
    await limiting.limit(store, concurrency=3)
    ids = [await enqueue(store) for _ in range(6)]
    worker = await register(store)
    first = await claim(store, worker, limit=3)
    assert await exchange(store, worker, first) == ids[3:]
    usage = await store.limit_usage("tenants")
    assert usage is not None
    assert sorted(holder.job_id for holder in usage.holders) == ids[3:]


async def test_what_no_job_needs_comes_back(store: Store) -> None:
    await limiting.limit(store, concurrency=3)
    last = [await enqueue(store) for _ in range(4)][-1]
    worker = await register(store)
    first = await claim(store, worker, limit=3)
    assert await exchange(store, worker, first) == [last]
    assert await taken(store) == 1
    assert len([await enqueue(store) for _ in range(3)]) == 3
    assert len(await claim(store, worker)) == 2


async def test_those_who_wait_come_before_those_who_do_not_yet(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    first = await enqueue(store, priority=6)
    held = await enqueue(store, priority=6)
    worker = await register(store)
    running = await claim(store, worker, lane(priority=6))
    assert ([job.id for job in running], await state_of(store, held)) == ([first], JobState.HELD)
    later = await enqueue(store)
    worked = await store.finish_jobs(
        [completed(running[0].id, running[0].claim)], claim=claim_of(worker, lane(priority=6), lane())
    )
    assert [job.id for job in worked.claimed] == [held]
    assert await state_of(store, later) is not JobState.RUNNING


async def test_a_limit_that_shrank_keeps_the_slots(store: Store) -> None:
    await limiting.limit(store, concurrency=4)
    for _ in range(8):
        await enqueue(store)
    worker = await register(store)
    first = await claim(store, worker, limit=4)
    await limiting.limit(store, concurrency=2)
    assert await exchange(store, worker, first[:2]) == []
    assert await taken(store) == 2
    assert len(await exchange(store, worker, first[2:])) == 2
    assert await taken(store) == 2


async def test_a_job_that_is_refused_leaves_the_slot_it_was_handed(store: Store) -> None:
    limits = [
        LimitRow(name="all", queue="default", concurrency=3),
        LimitRow(name="tenants", queue="default", path=TENANT, concurrency=1),
    ]
    await store.define_limits(limits, ["default"])
    for tenant in "ab":
        await of(store, tenant)
    worker = await register(store)
    first = await claim(store, worker)
    second, third = await of(store, "a"), await of(store, "a")
    assert await exchange(store, worker, first) == [second]
    assert await state_of(store, third) is JobState.HELD
    assert (await taken(store, "all"), await taken(store)) == (1, 1)


async def test_a_job_may_have_its_own_slot_again(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    job_id = await enqueue(store)
    worker = await register(store)
    (job,) = await claim(store, worker)
    worked = await store.finish_jobs([snoozed(job.id, job.claim, 0)], claim=claim_of(worker))
    assert [one.id for one in worked.claimed] in ([], [job_id])
    assert await taken(store) == len(worked.claimed)


async def test_slots_are_not_handed_to_jobs_of_another_queue(store: Store) -> None:
    await limiting.limit(store, concurrency=2)
    other = await enqueue(store, queue="other")
    await enqueue(store)
    worker = await register(store)
    first = await claim(store, worker)
    assert await exchange(store, worker, first, queue="other") == [other]
    assert await taken(store) == 0
