"""Enqueues whose answer is lost, late or never comes: one job, and nobody waits beyond the deadline."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from holdfast import JobHandle
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.job import NewJob
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Inserted
from holdfast.transitions import completed
from tests.faults.store.apps import make_app, timed
from tests.faults.store.stores import AnyStore
from tests.support.builders import claim, register
from tests.support.figures import show

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def losing_the_first_answer(store: AnyStore, *, finishes: bool) -> AsyncIterator[list[bool]]:
    """Let the first insert arrive, its jobs be worked off if asked, and its answer be lost."""
    insert, sends = store.insert_jobs, list[bool]()

    async def insert_jobs(jobs: Sequence[NewJob], *, again: bool = False, whole: bool = False) -> list[Inserted]:
        answers = await insert(jobs, again=again, whole=whole)
        sends.append(again)
        if len(sends) > 1:
            return answers
        if finishes:
            await work_off(store)
        message = "the link broke"
        raise OutcomeUnknown(message)

    store.insert_jobs = insert_jobs  # type: ignore[method-assign] # the fault
    yield sends
    store.insert_jobs = insert  # type: ignore[method-assign] # the fault


async def work_off(store: AnyStore) -> None:
    worker = await register(store)
    jobs = await claim(store, worker)
    await store.finish_jobs([completed(job.id, job.claim, "null") for job in jobs])


@pytest.mark.parametrize("finishes", [False, True], ids=["waits", "finishes"])
@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"unique": "u"}, {"unique": "u", "unique_for": "1h"}])
async def test_a_repeated_send_is_one_job(closed_store: AnyStore, options: Any, finishes: bool) -> None:
    """The client itself sends again, under the same id."""
    app, keep = make_app()
    async with app.open_on(closed_store):
        async with losing_the_first_answer(closed_store, finishes=finishes) as sends:
            job = await keep.using(**options).enqueue(1)
        assert sends == [False, True]
        assert job.created
        assert [found.number async for found in app.jobs.iterate()] == [job.number]


@pytest.mark.parametrize("finishes", [False, True], ids=["waits", "finishes"])
async def test_a_repeated_bulk_is_one_job_each(closed_store: AnyStore, finishes: bool) -> None:
    app, keep = make_app()
    calls = [keep.call(1), keep.using(key="k").call(2), keep.using(unique="u").call(3)]
    async with app.open_on(closed_store):
        async with losing_the_first_answer(closed_store, finishes=finishes) as sends:
            jobs = await app.enqueue_many(calls)
        assert sends == [False, True]
        assert [job.created for job in jobs] == [True] * 3
        assert sorted([found.number async for found in app.jobs.iterate()]) == sorted(job.number or 0 for job in jobs)


async def test_a_key_outlives_its_job(closed_store: AnyStore) -> None:
    """The program itself asks again, after its job has run and ended."""
    app, keep = make_app()
    async with app.open_on(closed_store):
        first = await keep.using(key="k").enqueue(1)
        await work_off(closed_store)
        second = await keep.using(key="k").enqueue(1)
        (third,) = await app.enqueue_many([keep.using(key="k").call(1)])
        assert (second.created, second.number) == (third.created, third.number) == (False, first.number)
        assert [found.number async for found in app.jobs.iterate()] == [first.number]


async def test_a_cancelled_keyed_enqueue_is_repeated_safely(closed_store: AnyStore) -> None:
    """A caller that is cancelled while its job is on the way asks again with the same key."""
    app, keep = make_app()
    insert, sent = closed_store.insert_jobs, asyncio.Event()

    async def insert_jobs(jobs: Sequence[NewJob], *, again: bool = False, whole: bool = False) -> list[Inserted]:
        sent.set()
        return await insert(jobs, again=again, whole=whole)

    closed_store.insert_jobs = insert_jobs  # type: ignore[method-assign] # the fault
    async with app.open_on(closed_store):
        for n in range(5):
            sent.clear()
            asking = asyncio.create_task(keep.using(key=f"k{n}").enqueue(n))
            await sent.wait()
            asking.cancel()
            await asyncio.wait([asking])
            job = await keep.using(key=f"k{n}").enqueue(n)
            assert (await job.get()).args == {"n": n}
        assert sorted([found.args["n"] async for found in app.jobs.iterate()]) == list(range(5))


# ---- PostgreSQL does not answer --------------------------------------------------------------------------------------


async def answered(verb: Callable[[], Awaitable[JobHandle[Any]]]) -> JobHandle[Any]:
    """Ask again until there is an answer: a new session may take longer for its first plans than a short deadline."""
    while True:
        with suppress(StoreUnavailable, OutcomeUnknown):
            return await verb()


async def test_nobody_waits_for_postgresql_beyond_the_deadline(dsn: str, schema: str) -> None:
    app, keep = make_app(deadline="400ms")
    other, store = await asyncpg.connect(dsn), PostgresStore(dsn, schema=schema)
    async with app.open_on(store):
        store.pool.deadline = 0.4
        await answered(functools.partial(keep.using(key="first").enqueue, 0))
        transaction = other.transaction()
        await transaction.start()
        await other.execute(f"LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE")
        verbs: list[Callable[[], Awaitable[Any]]] = [functools.partial(keep.enqueue, n) for n in range(1, 21)]
        verbs.append(functools.partial(keep.using(key="k").enqueue, 21))
        verbs.append(functools.partial(app.enqueue_many, [keep.call(22), keep.call(23)]))
        begun = time.monotonic()
        answers = await asyncio.gather(*(timed(verb) for verb in verbs))
        took = time.monotonic() - begun
        await transaction.rollback()
        show(f"{len(answers)} callers were told after {took * 1_000:.0f} ms (deadline 400 ms)")
        for error, seconds in answers:
            assert isinstance(error, StoreUnavailable | OutcomeUnknown)
            assert seconds < 2.4
        after = await answered(functools.partial(keep.using(key="k").enqueue, 21))
        numbers = [found.args["n"] async for found in app.jobs.iterate()]
        assert after.number is not None
        assert numbers.count(21) == 1
        assert len(numbers) == len(set(numbers))  # whatever became of the others, none is there twice
    await other.close()
