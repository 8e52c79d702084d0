"""From the first claim to the last: how a worker inside a program starts, leaves and is left."""

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

from holdfast import ConfigError, Context, Holdfast, InvalidValue, JobState, ShutdownTimeout, Snooze
from tests.support.clock import Clock
from tests.support.moments import Moments
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import BRISK, MakeApp, drained, ended, working

# ---- until -----------------------------------------------------------------------------------------------------------


async def test_until_empty_works_everything_that_may_run_now(app: Holdfast) -> None:
    order: list[str] = []

    @app.task
    async def parent() -> None:
        order.append("parent")
        await child.enqueue()

    @app.task
    async def child() -> None:
        order.append("child")

    @app.task
    async def again(ctx: Context) -> None:
        order.append("again")
        raise Snooze(3_600)

    await parent.enqueue()
    clock = Clock(app.store)
    await clock.stop()
    due = await child.using(delay="10s").enqueue()
    later = await child.using(delay="1h").enqueue()
    snoozed = await again.enqueue()
    await clock.advance(seconds=10)
    await drained(app)
    assert sorted(order) == ["again", "child", "child", "parent"]
    assert (await due.get()).state is JobState.COMPLETED
    assert [(await handle.get()).state for handle in (later, snoozed)] == [JobState.SCHEDULED] * 2


@pytest.mark.guards("look-after-promotion")
async def test_until_empty_works_what_another_has_made_ready_in_the_last_moment(
    make_sqlite_memory: MakeApp, moments: Moments
) -> None:
    async with make_sqlite_memory(worker=dataclasses.replace(BRISK, poll="1h")) as app:

        @app.task
        async def work() -> None: ...

        store: Any = app.store
        clock, promote = Clock(store), store.promote_jobs

        async def promote_late(*args: Any, **options: Any) -> Any:
            if moments.count("claimed", jobs=[]):  # the worker has looked, and found nothing
                await clock.advance(seconds=10)
                await promote(*args, **options)  # as another does, whose hint has not come yet
            return await promote(*args, **options)

        await clock.stop()
        handle = await work.using(delay="10s").enqueue()
        store.promote_jobs = promote_late
        await drained(app)
        assert (await handle.get()).state is JobState.COMPLETED


async def test_until_empty_on_an_empty_store_returns(app: Holdfast) -> None:
    await drained(app)


async def test_until_one_runs_one_job(app: Holdfast) -> None:
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)

    handles = [await work.enqueue(number) for number in range(3)]
    for expected in ([0], [0, 1], [0, 1, 2], [0, 1, 2]):
        async with asyncio.timeout(PATIENCE_S):
            await app.run_worker(until="one", concurrency=4)
        assert ran == expected
    assert {(await handle.get()).attempt for handle in handles} == {1}


@pytest.mark.parametrize(
    "options, expected",
    [
        pytest.param({"until": "tomorrow"}, ValueError, id="until"),
        pytest.param({"concurrency": 0}, InvalidValue, id="concurrency"),
        pytest.param({"concurrency": True}, InvalidValue, id="concurrency that is no number"),
        pytest.param({"queues": []}, ConfigError, id="no queues"),
        pytest.param({"queues": ["no such name!"]}, InvalidValue, id="queue name"),
    ],
)
async def test_wrong_options_are_refused(
    memory_app: Holdfast, options: dict[str, Any], expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        await memory_app.run_worker(**options)


async def test_a_worker_opens_and_closes_an_app_that_is_not_open(make_sqlite_file: MakeApp) -> None:
    app = make_sqlite_file()

    @app.task
    async def work() -> int:
        return 3

    async with app:
        handle = await work.enqueue()
    await drained(app)
    async with app:
        assert (await app.jobs.get(handle.number or 0)).result == 3


# ---- leaving ---------------------------------------------------------------------------------------------------------


async def test_the_stop_event_drains(app: Holdfast, moments: Moments) -> None:
    release, stop = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(number: int) -> int:
        if number == 0:
            stop.set()
            await release.wait()
        return number

    handles = [await work.enqueue(number) for number in range(3)]
    worker = asyncio.create_task(app.run_worker(stop=stop, concurrency=1))
    await moments.wait("drain_begun")
    late = await work.enqueue(9)
    assert not worker.done()  # what had begun may end
    release.set()
    await worker
    jobs = [await handle.get() for handle in (*handles, late)]
    assert [(job.state, job.attempt) for job in jobs] == [(JobState.COMPLETED, 1)] + [(JobState.QUEUED, 0)] * 3


async def test_what_does_not_end_within_the_grace_is_given_back_and_keeps_its_place(make_app: MakeApp) -> None:
    order: list[str] = []
    async with make_app(worker=dataclasses.replace(BRISK, shutdown_grace="100ms")) as app:

        @app.task
        async def work(ctx: Context, name: str) -> None:
            order.append(name)
            if ctx.job.claim == 1 and name == "first":
                await asyncio.Event().wait()

        first = await work.enqueue("first")
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop, concurrency=1))
        await until(lambda: order == ["first"], "it runs")
        second = await work.enqueue("second")
        stop.set()
        with pytest.raises(ShutdownTimeout, match="requeued"):
            await worker
        job = await first.get()
        assert (job.state, job.attempt, job.attempts[-1].outcome) == (JobState.QUEUED, 0, "interrupt")
        await drained(app, concurrency=1)
        assert order == ["first", "first", "second"]
        assert [(await handle.get()).attempt for handle in (first, second)] == [1, 1]


async def test_a_cancellation_gives_back_at_once_and_is_not_swallowed(make_app: MakeApp) -> None:
    async with make_app(worker=dataclasses.replace(BRISK, shutdown_grace="1h")) as app:
        await _cancelled_at_once(app)


async def _cancelled_at_once(app: Holdfast) -> None:
    order: list[str] = []

    @app.task
    async def work(ctx: Context, name: str) -> str:
        order.append(name)
        if ctx.job.claim == 1 and name == "first":
            try:
                await asyncio.Event().wait()
            finally:
                order.append("cleaned up")
        return name

    first = await work.enqueue("first")
    worker = asyncio.create_task(app.run_worker(concurrency=1))
    await until(lambda: bool(order), "it runs")
    second = await work.enqueue("second")
    worker.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await worker
    jobs = [await handle.get() for handle in (first, second)]
    assert [(job.state, job.attempt, job.crashes) for job in jobs] == [(JobState.QUEUED, 0, 0)] * 2
    await drained(app, concurrency=1)
    assert order == ["first", "cleaned up", "first", "second"]
    store: Any = app.store
    assert await store.list_workers() == []


async def test_a_timeout_around_a_worker_is_seen(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work() -> None:
        timeout.reschedule(asyncio.get_running_loop().time())

    await work.enqueue()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as timeout:
            await memory_app.run_worker()


async def test_a_deaf_handler_does_not_keep_the_worker(make_sqlite_memory: MakeApp) -> None:
    has_begun, release = threading.Event(), threading.Event()
    async with make_sqlite_memory(worker=dataclasses.replace(BRISK, shutdown_grace="1h")) as app:

        @app.task
        def deaf() -> str:
            has_begun.set()
            release.wait(2 * PATIENCE_S)
            return "too late"

        handle = await deaf.enqueue()
        worker = asyncio.create_task(app.run_worker())
        await until(has_begun.is_set, "it runs")
        worker.cancel()
        try:
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(asyncio.CancelledError):
                    await worker
        finally:
            release.set()
        job = await handle.get()
        assert (job.state, job.attempt) == (JobState.QUEUED, 0)


async def test_an_async_handler_that_outlives_its_worker_ends_in_peace(memory_app: Holdfast) -> None:
    """It swallows every cancellation; its job was given back, and its own code still runs to its end."""
    release, events = asyncio.Event(), []

    @memory_app.task
    async def deaf() -> None:
        events.append("began")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                events.append("asked")
        events.append("ended")

    handle = await deaf.enqueue()
    worker = asyncio.create_task(memory_app.run_worker())
    await until(lambda: events == ["began"], "it runs")
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    (left,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("holdfast job")]
    release.set()
    await left
    assert (events[-1], "asked" in events) == ("ended", True)
    assert (await handle.get()).state is JobState.QUEUED


async def test_several_workers_share_one_app_and_one_store(app: Holdfast) -> None:
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0)

    handles = await app.enqueue_many(work.call(number) for number in range(60))
    async with working(app, concurrency=2) as one, working(app, concurrency=2) as two:
        assert one.id != two.id
        for handle in handles:
            await ended(handle)
    assert sorted(ran) == list(range(60))


async def test_starting_and_stopping_over_and_over_leaks_nothing(memory_app: Holdfast) -> None:
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    for _ in range(20):
        stop = asyncio.Event()
        worker = asyncio.create_task(memory_app.run_worker(stop=stop))
        await asyncio.sleep(0)
        stop.set()
        await worker
    assert len(asyncio.all_tasks()) == tasks
    assert threading.active_count() <= threads + 2


# ---- in a thread -----------------------------------------------------------------------------------------------------


def test_a_worker_thread_works_while_its_block_runs(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def on_the_loop(number: int) -> int:
        return number + 1

    @app.task
    def in_a_thread(number: int) -> int:
        return number + 2

    with app.blocking() as queue:
        with app.worker_thread(concurrency=2) as worker:
            assert worker.is_running
            handles = [queue.enqueue(on_the_loop.call(1)), queue.enqueue(in_a_thread.call(1))]
            assert [handle.result(PATIENCE_S) for handle in handles] == [2, 3]
        assert not worker.is_running
        late = queue.enqueue(on_the_loop.call(1))
        assert queue.jobs.get(late.id).state is JobState.QUEUED
        with app.worker_thread(), app.blocking() as inner:
            assert inner.enqueue(in_a_thread.call(2)).result(PATIENCE_S) == 4


def test_leaving_the_block_lets_what_runs_end(make_sqlite_file: MakeApp, moments: Moments) -> None:
    app = make_sqlite_file()
    begun, release = threading.Event(), threading.Event()

    @app.task
    def work() -> str:
        begun.set()
        release.wait(PATIENCE_S)
        return "ended"

    def let_end() -> None:
        moments.wait_in_thread("drain_begun")
        release.set()

    with app.blocking() as queue:
        with app.worker_thread():
            handle = queue.enqueue(work.call())
            assert begun.wait(PATIENCE_S)
            threading.Thread(target=let_end).start()
        assert queue.jobs.get(handle.number or 0).result == "ended"


def test_what_keeps_a_worker_thread_from_starting_is_raised_where_the_block_is_left(
    make_sqlite_memory: MakeApp,
) -> None:
    app = make_sqlite_memory()
    with pytest.raises(ConfigError, match="at least one name"), app.worker_thread(queues=[]):
        pass


def test_a_handler_that_stops_the_loop_of_a_worker_thread_stops_nothing(make_sqlite_file: MakeApp) -> None:
    app = make_sqlite_file()

    @app.task
    async def stop(number: int) -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return number

    with app.worker_thread(), app.blocking() as queue:
        handles = [queue.enqueue(stop.call(number)) for number in range(5)]
        assert [handle.result(PATIENCE_S) for handle in handles] == list(range(5))
