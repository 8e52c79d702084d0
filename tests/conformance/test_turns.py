"""Keys take turns, and jobs in a row run one after the other."""

import msgspec

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.transitions import completed, failed, interrupted, retried
from tests.support import limits as limiting
from tests.support.builders import FAILURE, cancel, claim, enqueue_many, register, settle, state_of
from tests.support.clock import Clock
from tests.support.limits import TENANT, complete, of


async def test_jobs_in_a_row_run_one_at_a_time_in_the_order_they_were_enqueued(store: Store) -> None:
    await limiting.limit(store, path=TENANT, fifo=True)
    ids = [await of(store, "a") for _ in range(4)]
    other = await of(store, "b")
    worker = await register(store)
    (first, free) = await claim(store, worker)
    assert (first.id, free.id) == (ids[0], other)
    for job_id in ids[1:]:
        assert await claim(store, worker) == []
        await complete(store, first)
        (first,) = await claim(store, worker)
        assert first.id == job_id


async def test_one_that_waits_for_its_retry_keeps_the_row(store: Store, clock: Clock) -> None:
    await limiting.limit(store, path=TENANT, fifo=True)
    first, second = [await of(store, "a") for _ in range(2)]
    worker = await register(store)
    (job,) = await claim(store, worker)
    await settle(store, retried(job.id, job.claim, FAILURE, 60_000))
    assert await claim(store, worker) == []
    late = await of(store, "a")
    assert await claim(store, worker) == []
    await clock.advance(seconds=60)
    await store.promote_jobs(10)
    (job,) = await claim(store, worker)
    assert job.id == first
    await settle(store, failed(job.id, job.claim, FAILURE))
    (job,) = await claim(store, worker)
    assert job.id == second
    await complete(store, job)
    assert [one.id for one in await claim(store, worker)] == [late]


async def test_a_cancelled_head_lets_the_next_go_on(store: Store) -> None:
    await limiting.limit(store, path=TENANT, fifo=True)
    first, second, third = [await of(store, "a") for _ in range(3)]
    worker = await register(store)
    (job,) = await claim(store, worker)
    await settle(store, retried(job.id, job.claim, FAILURE, 60_000))
    assert await claim(store, worker) == []
    await cancel(store, second)  # which was not its turn
    assert await claim(store, worker) == []
    await cancel(store, first)
    assert [one.id for one in await claim(store, worker)] == [third]


async def test_one_that_was_given_back_goes_first_again(store: Store) -> None:
    await limiting.limit(store, path=TENANT, fifo=True)
    ids = [await of(store, "a") for _ in range(3)]
    worker = await register(store)
    (job,) = await claim(store, worker)
    await settle(store, interrupted(job.id, job.claim))
    assert [one.id for one in await claim(store, worker)] == ids[:1]


async def test_jobs_from_before_the_limit_line_up_too(store: Store) -> None:
    ids = [await of(store, "a") for _ in range(3)]
    await limiting.limit(store, path=TENANT, fifo=True)
    worker = await register(store)
    seen = []
    for _ in ids:
        (job,) = await claim(store, worker)
        seen.append(job.id)
        await store.finish_jobs([completed(job.id, job.claim)])
    assert seen == ids


async def test_keys_take_turns_whoever_came_first(store: Store) -> None:
    await limiting.limit(store, path=TENANT, rotate=True)
    many = msgspec.json.encode({"tenant": "a"}).decode()
    await enqueue_many(store, 300, payload=many)
    few = [await of(store, "b") for _ in range(5)]
    worker = await register(store)
    taken = [job.id for _ in range(4) for job in await claim(store, worker, limit=5)]
    assert set(few) <= set(taken)
    seen = len(taken)
    while jobs := await claim(store, worker, limit=50):
        seen += len(jobs)
    assert seen == 305
    assert await state_of(store, few[0]) is JobState.RUNNING
