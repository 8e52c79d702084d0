"""A worker whose ids come by Redis: jobs start promptly whatever made them ready, by the same rules as without it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from holdfast import Context, Holdfast, JobState, Queue, Retry, Snooze
from holdfast.job import JobRow
from holdfast.shards import RedisDelivery
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Claim
from tests.redis.prompt import NO_SWEEP, SELDOM, Gate, carried, known, promptly
from tests.support.connections import connected
from tests.support.moments import Moments
from tests.support.sizes import size
from tests.support.valkey import Valkey
from tests.support.wait import until
from tests.support.workers import MakeApp, drained, ended, until_state, working

# ---- what makes a job ready ------------------------------------------------------------------------------------------


async def test_an_enqueued_job_starts_promptly(app: Holdfast) -> None:
    @app.task
    async def work() -> None:
        pass

    async with working(app):
        for number in range(20):
            await promptly(await work.using(priority=9 * (number % 2)).enqueue())


@pytest.mark.parametrize("delay", [0, "300ms"])
async def test_a_retry_starts_when_it_is_due(delay: Any, app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise Retry(delay)

    async with working(app):
        await promptly(await work.enqueue())


async def test_a_snoozed_job_starts_when_it_is_due(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.job.claim == 1:
            raise Snooze("300ms")

    async with working(app):
        await promptly(await work.enqueue())


async def test_a_scheduled_job_starts_when_it_is_due(app: Holdfast) -> None:
    @app.task
    async def work() -> None:
        pass

    async with working(app):
        await promptly(await work.using(delay="300ms").enqueue())
        later = await work.using(delay="1h").enqueue()
        await app.client.jobs.reschedule(later.id, delay=0)
        await promptly(later)


async def test_a_job_that_is_retried_by_hand_starts(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    async def work(ctx: Context) -> None:
        if ctx.job.claim == 1:
            message = "not today"
            raise ValueError(message)

    async with working(app):
        handle = await work.enqueue()
        assert (await ended(handle)).state is JobState.FAILED
        await app.client.jobs.retry(handle.id)
        await promptly(handle)


async def test_a_resumed_queue_starts_its_jobs(app: Holdfast) -> None:
    """Their ids were taken from Redis meanwhile, and refused."""

    @app.task
    async def work() -> None:
        pass

    async with working(app):
        await app.client.queues.pause("default")
        handles = await app.enqueue_many(work.call() for _ in range(30))
        await until(lambda: carried(app).popped >= 30, "the ids were taken")
        assert {(await handle.get()).state for handle in handles} == {JobState.QUEUED}
        await app.client.queues.resume("default")
        await promptly(*handles)


async def test_a_reprioritised_job_is_found_at_its_new_place(
    app: Holdfast, delivery: RedisDelivery, valkey: Valkey, other_valkey: Valkey
) -> None:
    gate, order = Gate(), []

    @app.task
    async def block() -> None:
        await gate.pass_()

    @app.task
    async def work(name: str) -> None:
        order.append(name)

    async with working(app, concurrency=1):
        blocker = await block.using(priority=0).enqueue()
        await until(lambda: gate.began == 1, "the only slot is taken")
        handles = [await work.using(priority=9).enqueue(name) for name in ("first", "second", "third")]
        await until(lambda: other_valkey.ask("ZCARD", delivery.key("default", 9)) == 3, "the ids lie in Redis")
        await app.client.jobs.reprioritise(handles[2].id, 0)
        # The blocker's id may lie there too: a worker that has no answer from Redis yet claims from the store.
        place = delivery.key("default", 0)
        await until(lambda: valkey.ask("ZSCORE", place, known(handles[2])) is not None, "the id lies at its new place")
        gate.opened.set()
        await promptly(blocker, *handles)
    assert order == ["third", "first", "second"]


async def test_a_job_of_the_callers_own_transaction_starts_promptly(
    make_postgres: MakeApp, delivery: RedisDelivery, dsn: str
) -> None:
    async with make_postgres(delivery=delivery, worker=SELDOM, services=NO_SWEEP) as app:

        @app.task
        async def work() -> None:
            pass

        connection = await asyncpg.connect(dsn)
        async with working(app):
            await until(lambda: carried(app).is_live, "both servers have answered")
            async with connection.transaction():
                handle = await work.using(connection=connection).enqueue()
            await promptly(handle)
        await connection.close()


@pytest.mark.guards("look-after-loss")
async def test_the_lanes_are_read_often_from_when_a_server_is_lost(
    app: Holdfast, valkey: Valkey, moments: Moments
) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.job.claim == 1:
            raise Snooze("10ms")

    async with working(app):
        await until(lambda: carried(app).is_live, "both servers have answered")
        await promptly(await work.enqueue())  # the worker has looked for it, and means to look again in an hour
        valkey.kill()
        await moments.next("lanes_looked_at", times=5)


async def test_a_job_starts_promptly_though_another_session_wrote_to_its_row_when_it_was_to_be_claimed(
    make_postgres: MakeApp, delivery: RedisDelivery, dsn: str, empty_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the note that ids were pushed does."""
    settings: dict[str, Any] = {"delivery": delivery, "worker": SELDOM, "services": NO_SWEEP}
    async with make_postgres(**settings) as app, connected(dsn) as connection:

        @app.task
        async def work() -> None:
            pass

        claim_jobs_by_id, answers = app.store.claim_jobs_by_id, list[list[JobRow]]()

        async def claimed(claim: Claim, ids: Sequence[int]) -> list[JobRow]:
            if answers:
                return await claim_jobs_by_id(claim, ids)
            async with connection.transaction():
                await connection.execute(f"SELECT FROM {empty_schema}.jobs WHERE id = ANY ($1) FOR UPDATE", ids)
                answers.append(await claim_jobs_by_id(claim, ids))
            return answers[0]

        monkeypatch.setattr(app.store, "claim_jobs_by_id", claimed)
        async with working(app):
            while not answers:  # the first may be found in its lane
                await promptly(await work.enqueue())
        assert answers == [[]]


# ---- order, weights and bounds ---------------------------------------------------------------------------------------


async def test_high_goes_before_low_and_low_does_not_starve(app: Holdfast) -> None:
    order: list[str] = []
    gate = Gate()

    @app.task
    async def block() -> None:
        await gate.pass_()

    @app.task
    async def work(name: str) -> None:
        order.append(name)

    async with working(app, concurrency=1):
        await block.enqueue()
        await until(lambda: gate.began == 1, "the only slot is taken")
        await app.enqueue_many(work.using(priority=8).call("low") for _ in range(60))
        await app.enqueue_many(work.using(priority=2).call("high") for _ in range(200))
        await until(lambda: carried(app).pushed >= 260, "all ids lie in Redis")
        gate.opened.set()
        await until(lambda: len(order) == 260, "all have run")
    low = Counter(order[:150])["low"]  # of 4 and 1, one in five
    assert low <= 40, order
    if isinstance(app.store, PostgresStore):  # on SQLite the weights do not hold: a worker takes the most urgent first
        assert low >= 20, order


async def test_the_bound_of_a_queue_is_kept(make: MakeApp) -> None:
    async with make(queues=[Queue("tight", workers=2)]) as app:
        gate, now, most = Gate(), Counter[str](), Counter[str]()

        async def count(queue: str) -> None:
            now[queue] += 1
            most[queue] = max(most[queue], now[queue])
            await gate.pass_()
            await asyncio.sleep(0)  # so that they stand beside each other once the gate is open, too
            now[queue] -= 1

        @app.task(queue="tight")
        async def narrow() -> None:
            await count("tight")

        @app.task
        async def wide() -> None:
            await count("default")

        async with working(app, concurrency=6):
            handles = await app.enqueue_many(narrow.call() for _ in range(size(30, 300)))
            await until(lambda: now["tight"] == 2, "as many run as may")
            handles += await app.enqueue_many(wide.call() for _ in range(size(30, 300)))
            await until(lambda: now == {"tight": 2, "default": 4}, "the other slots are taken by the other queue")
            gate.opened.set()
            await promptly(*handles)
    assert most["tight"] == 2
    assert 4 <= most["default"] <= 6


# ---- what the store is told ------------------------------------------------------------------------------------------


async def test_announced_at_is_set_after_the_push_and_cleared_when_the_job_waits_again(app: Holdfast) -> None:
    gate = Gate()

    @app.task
    async def work(ctx: Context) -> None:
        await gate.pass_()
        if ctx.job.attempt == 1:
            raise Retry("1h")

    async with working(app, concurrency=1):
        handles = [await work.enqueue() for _ in range(2)]

        async def is_announced() -> bool:
            jobs = await app.store.get_jobs([handle.number or 0 for handle in handles])
            return any(job.state is JobState.QUEUED and job.announced_at is not None for job in jobs)

        await until(is_announced, "the one that waits is announced")
        gate.opened.set()
        for handle in handles:
            later = await until_state(handle, JobState.SCHEDULED)
            assert (await app.store.get_jobs([later.number]))[0].announced_at is None


@pytest.mark.real_time
async def test_enqueuing_does_not_wait_for_a_silent_server(app: Holdfast, valkey: Valkey, other_valkey: Valkey) -> None:
    @app.task
    async def work() -> None:
        pass

    valkey.pause()
    other_valkey.pause()
    handles = [await work.using(priority=9 * (number % 2)).enqueue() for number in range(4)]
    # The first push still waits for its answer, up to 2 seconds.
    assert (carried(app).pushed, carried(app).dropped) == (0, 0)
    async with working(app):
        await promptly(*handles)


# ---- a worker's life -------------------------------------------------------------------------------------------------


async def test_a_worker_that_leaves_when_empty_leaves_nothing_behind(app: Holdfast) -> None:
    @app.task
    async def work() -> None:
        pass

    handles = await app.enqueue_many(work.using(priority=number % 11).call() for number in range(size(100, 1_000)))
    await drained(app, concurrency=4)
    assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    await drained(app)  # there is nothing left


async def test_jobs_start_promptly_after_their_worker_was_declared_dead(app: Holdfast, moments: Moments) -> None:
    @app.task
    async def work() -> None:
        pass

    async with working(app, concurrency=2) as busy:
        for _ in range(3):
            registered = moments.count("registered")
            await app.store.release_worker(busy.id, [])
            handles = [await work.enqueue() for _ in range(2)]
            await moments.wait("registered", times=registered + 1)
            await promptly(*handles)
        for _ in range(20):
            await promptly(await work.enqueue())
