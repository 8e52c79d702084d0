"""Who watches hears what happens, in whatever process, and leaves nothing behind."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from holdfast import Context, Fatal, Holdfast, JobNotFound, JobState, NotOpen, Retry, StoreUnavailable, Task
from holdfast.client import watching as watching_module
from holdfast.client.subscription import MOST_WAITING, EventsMissed
from holdfast.client.watching import Watching
from holdfast.events import TERMINAL_EVENTS, EventType
from holdfast.public_id import decode
from holdfast.resources.event import Event
from holdfast.stores.postgres.store import PostgresStore
from tests.support.clock import LaterTime
from tests.support.moments import Moments, recorded
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import MakeApp, drained, working
from tests.worker.faults import Faults

Work = Task[..., None]
ENQUEUED, STARTED, COMPLETED = EventType.ENQUEUED, EventType.STARTED, EventType.COMPLETED


async def followed(watch: AsyncIterator[Event]) -> list[Event]:
    """Follow a watch to its end."""
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in watch]


def kinds(events: list[Event]) -> list[str]:
    """Name what was heard, without how far it was."""
    return [event.type for event in events if event.type != EventType.PROGRESS]


async def heard(events: AsyncIterator[Event], count: int) -> list[Event]:
    """Take so many events."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(events) for _ in range(count)]


@asynccontextmanager
async def watched(watch: AsyncIterator[Event]) -> AsyncIterator["asyncio.Task[list[Event]]"]:
    """Follow a watch beside the block, which begins once it waits for news."""
    with recorded() as moments:
        following = asyncio.create_task(followed(watch))
        await moments.wait("news_awaited")
    yield following


async def watchers(app: Holdfast) -> int:
    """Count the rows of those who watch."""
    store: Any = app.store
    if isinstance(store, PostgresStore):
        return int((await store.fetch_sql("SELECT count(*) FROM holdfast.watchers"))[0][0])
    query = "SELECT count(*) FROM holdfast_watchers"
    return int(await store.connection.read(lambda database, _: database.execute(query).fetchone()[0]))


def linger(app: Holdfast, linger_s: float) -> Watching:
    """Let the one who reads for all stay less long."""
    app.client.watching = Watching(app.store, linger_s=linger_s)
    return app.client.watching


@pytest.fixture
def work(app: Holdfast) -> Work:
    """Give a task that does nothing."""

    @app.task
    async def work(number: int = 0) -> None: ...

    return work


# ---- one job ---------------------------------------------------------------------------------------------------------


async def test_a_job_is_followed_from_its_queue_to_its_end(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        await ctx.progress(40, "on the way")

    handle = await work.enqueue()
    async with watched(handle.watch()) as following:
        await drained(app)
        events = await following
    assert kinds(events) == [STARTED, COMPLETED]
    assert {decode(event.id or "") for event in events} == {handle.number}
    assert events[-1].state is JobState.COMPLETED


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_of_a_job_that_has_ended_its_end_is_all(app: Holdfast, how: str) -> None:
    @app.task
    async def work() -> None:
        if how == "failed":
            raise Fatal(how)

    handle = await work.enqueue()
    if how == "cancelled":
        await handle.cancel()
    await drained(app)
    (event,) = await followed(handle.watch())
    job = await handle.get()
    assert (event.type, event.state, event.run, event.claim) == (f"job:{how}", job.state, 1, job.claim)
    assert event.at == job.finished_at
    assert event.data.get("error") == job.error


async def test_a_job_that_is_tried_again_is_followed_through_all_its_attempts(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.job.attempt < 3:
            raise Retry(0)

    handle = await work.enqueue()
    async with watched(handle.watch()) as following, working(app):
        events = await following
    assert kinds(events) == [STARTED, EventType.RETRYING] * 2 + [STARTED, COMPLETED]
    assert [event.attempt for event in events if event.type == STARTED] == [1, 2, 3]


async def test_a_watch_follows_the_life_in_which_it_began(app: Holdfast) -> None:
    ways = ["fail", "pass"]

    @app.task
    async def work() -> None:
        if (way := ways.pop(0)) == "fail":
            raise Fatal(way)

    handle = await work.enqueue()
    await drained(app)
    await handle.retry()
    async with watched(handle.watch()) as following:
        await drained(app)
        events = await following
    assert [(event.type, event.run) for event in events] == [(STARTED, 2), (COMPLETED, 2)]


async def test_a_job_that_is_deleted_meanwhile_ends_the_watch(app: Holdfast, work: Work) -> None:
    handle = await work.enqueue()
    async with watched(handle.watch()) as following:
        await drained(app)
        await app.jobs.delete(handle.id)
        assert kinds(await following) == [STARTED, COMPLETED]
    with pytest.raises(JobNotFound):
        await followed(handle.watch())


async def test_a_watch_that_is_left_early_is_forgotten(app: Holdfast, work: Work) -> None:
    handle = await work.enqueue()
    async with working(app):
        async for event in handle.watch():
            assert event.type in {STARTED, *TERMINAL_EVENTS}
            break
        await until(lambda: not app.client.watching.watchers, "nobody watches")


# ---- many jobs -------------------------------------------------------------------------------------------------------


async def test_a_filter_lets_through_what_fits_all_of_it(app: Holdfast) -> None:
    @app.task(queue="one")
    async def first() -> None: ...

    @app.task(queue="two")
    async def second() -> None: ...

    async with (
        app.events(types=["job:completed"]) as by_kind,
        app.events(queues=["ONE"]) as by_queue,
        app.events(kinds=["second"], types=["job:enqueued"]) as by_both,
    ):
        handles = [await first.enqueue(), await second.enqueue()]
        async with app.events(jobs=[handles[1].id], types=["job:started", "job:completed"]) as by_job:
            await drained(app, queues=["one", "two"])
            assert {decode(event.id or "") for event in await heard(by_kind, 2)} == {
                handle.number for handle in handles
            }
            assert kinds(await heard(by_queue, 3)) == [ENQUEUED, STARTED, COMPLETED]
            assert [decode(event.id or "") for event in await heard(by_both, 1)] == [handles[1].number]
            assert kinds(await heard(by_job, 2)) == [STARTED, COMPLETED]
        markers = [
            (await first.enqueue()).number,
            (await second.enqueue()).number,
        ]  # between which nothing else was heard
        await drained(app, queues=["one", "two"])
        nexts = [decode((await heard(one, 1))[0].id or "") for one in (by_kind, by_queue, by_both)]
        assert (nexts[0] in markers, nexts[1:]) == (True, markers)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_callback_that_raises_is_called_for_the_next_event(
    app: Holdfast, work: Work, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[Event] = []

    def callback(event: Event) -> None:
        called.append(event)
        message = "a fault of the callback"
        raise RuntimeError(message)

    async def async_callback(event: Event) -> None:
        await asyncio.sleep(0)
        callback(event)

    with caplog.at_level(logging.ERROR, "holdfast"):
        async with app.subscribe(async_callback if is_async else callback):
            await work.enqueue()
            await drained(app)
            await until(lambda: len(called) == 3, "all are heard")
    assert kinds(called) == [ENQUEUED, STARTED, COMPLETED]
    assert caplog.text.count("a callback of a subscription failed") == 3
    await until(lambda: not app.client.watching.watchers, "nobody watches")


async def test_who_does_not_read_is_told_once_and_goes_on(app: Holdfast, work: Work) -> None:
    many = MOST_WAITING + size(200, 2_000)
    async with app.events() as slow, app.events() as quick:
        await app.enqueue_many(work.call(number) for number in range(MOST_WAITING))
        await heard(quick, MOST_WAITING)
        await app.enqueue_many(work.call(number) for number in range(many))
        for _ in range(many):
            await heard(quick, 1)
        with pytest.raises(EventsMissed):
            await anext(slow)
        await work.enqueue(-1)
        (event,) = await heard(slow, 1)
        assert event == (await heard(quick, 1))[0]


OTHER = """
import asyncio, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1], schema=sys.argv[2])

@app.task
async def work(number: int) -> None: ...

async def main() -> None:
    async with app:
        await work.enqueue(1)
        await app.run_worker(until="empty")

asyncio.run(main())
"""


async def test_what_another_process_does_is_heard_here(make_shared_app: MakeApp) -> None:
    async with make_shared_app() as app, app.events() as events:
        command = [sys.executable, "-c", OTHER, app.config.url, app.config.schema]
        run = partial(subprocess.run, command, capture_output=True, text=True, timeout=50, check=False)
        done = await asyncio.to_thread(run)
        assert done.returncode == 0, done.stderr
        found = await heard(events, 3)
    assert kinds(found) == [ENQUEUED, STARTED, COMPLETED]


# ---- coming and going ------------------------------------------------------------------------------------------------


async def test_nothing_is_read_or_written_once_the_last_one_has_left(app: Holdfast, work: Work) -> None:
    before = await watchers(app)
    watching = linger(app, 0.05)
    async with app.events(), app.events():
        assert await watchers(app) == before + 1
    await until(lambda: not watching.is_reading, "the reader has left")

    async def gone() -> bool:
        return await watchers(app) == before

    await until(gone, "the watcher's row is gone")
    async with app.events() as events:
        await work.enqueue()
        assert kinds(await heard(events, 1)) == [ENQUEUED]


async def test_who_comes_back_at_once_meets_the_same_reader(memory_app: Holdfast) -> None:
    watching = linger(memory_app, 60.0)
    async with memory_app.events():
        epoch = watching.epoch
    async with memory_app.events():
        assert watching.epoch == epoch


async def test_closing_the_app_ends_every_watch(make_app: MakeApp, moments: Moments) -> None:
    app = make_app()

    @app.task
    async def work() -> None: ...

    async def listen() -> list[Event]:
        async with app.events() as events:
            return [event async for event in events]

    async with app:
        handle = await work.enqueue()
        ends = [asyncio.create_task(listen()), asyncio.create_task(followed(handle.watch()))]
        watching = app.client.watching
        await moments.wait("news_awaited", times=2)
        client = app.client
    assert await asyncio.wait_for(asyncio.gather(*ends), PATIENCE_S) == [[], []]
    assert not watching.watchers
    with pytest.raises(NotOpen):
        await client.events().__aenter__()


async def test_closing_the_app_while_a_watch_is_registered_cancels_no_caller(make_app: MakeApp) -> None:
    async def listen(app: Holdfast) -> None:
        async with app.events() as events:
            assert [event async for event in events] == []

    async with make_app() as app:
        faults = Faults(app, "first_event")
        faults.gate.clear()
        listening = asyncio.create_task(listen(app))
        await until(lambda: faults.waiting == 1, "the watch is being registered")
    await asyncio.wait([listening], timeout=PATIENCE_S)
    assert not listening.cancelled()
    assert isinstance(listening.exception(), NotOpen | None)


@pytest.mark.parametrize("when", ["registering", "waiting", "following"])
async def test_whoever_is_cancelled_leaves_nothing_behind(
    app: Holdfast, work: Work, when: str, moments: Moments
) -> None:
    handle = await work.enqueue()
    before = asyncio.all_tasks()
    watching = linger(app, 0.05)
    faults = Faults(app, "first_event")
    if when == "registering":
        faults.gate.clear()

    async def listen() -> None:
        async with app.events() as events:
            async for _ in events:
                pass

    many = [
        asyncio.create_task(followed(handle.watch()) if when == "following" else listen()) for _ in range(size(20, 200))
    ]
    if when == "registering":
        await until(lambda: watching.watchers == len(many), "all want to watch")
    else:
        await moments.wait("news_awaited", times=len(many))
    for task in many:
        task.cancel()
    await asyncio.wait(many)
    assert not watching.watchers
    faults.gate.set()
    await until(lambda: not watching.is_reading, "the reader has left")
    await until(lambda: asyncio.all_tasks() <= before, "no task is left")


async def test_a_store_that_is_away_for_a_moment_costs_no_event(app: Holdfast, work: Work) -> None:
    faults = Faults(app, "read_events", "watch")
    async with app.events() as events:
        faults.is_away = True
        handles = [await work.enqueue(number) for number in range(10)]
        before = faults.calls["read_events"]
        await until(lambda: faults.calls["read_events"] >= before + 3, "the reader keeps trying")
        faults.is_away = False
        assert [decode(event.id or "") for event in await heard(events, 10)] == [handle.number for handle in handles]
        faults.cut_reply("read_events", 3)
        await drained(app)
        assert kinds(await heard(events, 20)).count(COMPLETED) == 10


async def test_who_could_not_renew_the_watch_in_time_says_that_events_were_missed(
    app: Holdfast, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = LaterTime()
    monkeypatch.setattr(watching_module, "time", later)
    faults = Faults(app, "watch")
    async with app.events() as events:
        faults.is_away = True
        epoch = app.client.watching.epoch
        later.ahead_s += watching_module.RENEWED_S
        await until(lambda: faults.calls["watch"] > 3, "the reader keeps trying")
        later.ahead_s += watching_module.LASTS_S  # by which it has run out
        faults.is_away = False
        with pytest.raises(EventsMissed):
            await asyncio.wait_for(anext(events), PATIENCE_S)
        assert app.client.watching.epoch != epoch
        await work.enqueue()
        assert kinds(await heard(events, 1)) == [ENQUEUED]


async def test_a_store_that_is_away_from_the_beginning_is_told_to_who_wants_to_watch(app: Holdfast, work: Work) -> None:
    faults = Faults(app, "watch")
    faults.is_away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await app.events().__aenter__()
    assert not app.client.watching.watchers
    faults.is_away = False
    async with app.events() as events:
        await work.enqueue()
        assert kinds(await heard(events, 1)) == [ENQUEUED]
