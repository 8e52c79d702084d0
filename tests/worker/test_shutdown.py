"""Leaving a program: jobs first, then webhooks, under one deadline; everything is closed before anybody hears of it."""

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Context, Holdfast, JobState, Pipeline, ShutdownTimeout, phase
from holdfast.errors import NotOpen
from holdfast.job import JobRow
from holdfast.resources.job import Job
from holdfast.stores.values import Started
from holdfast.transitions import crashed, interrupted
from holdfast.worker import leaving as leaving_module
from tests.support.builders import FAILURE, claim, register
from tests.support.hostile_receiver import serving, silent
from tests.support.moments import Moments
from tests.support.wait import PATIENCE_S, until
from tests.support.webhook_receiver import posting, receiving
from tests.support.workers import BRISK, MakeApp, drained, until_state

SHORT = dataclasses.replace(BRISK, shutdown_grace="100ms")


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give handlers that were told to stop less than a second for it."""
    monkeypatch.setattr(leaving_module, "_STOPPING_S", 0.2)


def told(job: Job) -> list[tuple[str, str, Any]]:
    """What readers see of the phases."""
    return [(one.name, one.state.value, one.result) for one in job.phases]


@asynccontextmanager
async def leaving(app: Holdfast) -> AsyncIterator[asyncio.Task[None]]:
    """Let a worker run beside the block, and tell it to leave at the end; what it raises is for the test."""
    stop = asyncio.Event()
    worker = asyncio.create_task(app.run_worker(stop=stop, concurrency=1))
    yield worker
    stop.set()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait([worker])
    worker.exception()  # looked at


# ---- jobs, then webhooks ---------------------------------------------------------------------------------------------


async def test_a_job_that_ends_while_the_worker_leaves_is_still_posted(
    make_shared_app: MakeApp, moments: Moments
) -> None:
    async with posting(make_shared_app) as app, receiving() as receiver:
        begun, release = asyncio.Event(), asyncio.Event()

        @app.task
        async def work() -> int:
            begun.set()
            await release.wait()
            return 1

        handle = await work.using(webhook=receiver.url).enqueue()
        later = await work.using(webhook=receiver.url).enqueue()
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop, concurrency=1))
        await begun.wait()
        stop.set()
        await moments.wait("drain_begun")
        assert not worker.done()
        release.set()
        await worker
        job = await handle.get()
        assert (job.state, job.webhook_sent, len(receiver.requests)) == (JobState.COMPLETED, True, 1)
        assert (await later.get()).state is JobState.QUEUED


async def test_what_ended_before_is_posted_too_however_much_it_is(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving() as receiver:
        receiver.open.clear()

        @app.task
        async def work() -> None:
            return

        handles = [await work.using(webhook=receiver.url).enqueue() for _ in range(30)]
        async with leaving(app):
            await until_state(handles[-1], JobState.COMPLETED)
            receiver.open.set()
        assert [(await handle.get()).webhook_sent for handle in handles] == [True] * 30
        assert len({request.id for request in receiver.requests}) == len(receiver.requests) == 30


@pytest.mark.real_time  # a grace that must end
async def test_jobs_and_webhooks_share_one_grace(make_sqlite_memory: MakeApp) -> None:
    settings = dataclasses.replace(BRISK, shutdown_grace="2s")
    async with posting(make_sqlite_memory, worker=settings) as app, serving(silent) as port:
        has_begun = asyncio.Event()

        @app.task
        async def work(ms: int) -> None:
            has_begun.set()
            await asyncio.sleep(ms / 1_000)  # so much of the grace is used before the webhooks' turn

        handle = await work.using(webhook=f"http://127.0.0.1:{port}/").enqueue(1_500)
        async with leaving(app) as worker:
            await has_begun.wait()
            begun = time.monotonic()
        await worker  # the job had ended: no ShutdownTimeout
        took = time.monotonic() - begun
        assert (await handle.get()).state is JobState.COMPLETED
        assert 1.8 < took < 3.3  # not a second grace for the webhooks


async def test_a_cancellation_does_not_wait_for_receivers(make_sqlite_memory: MakeApp) -> None:
    settings = dataclasses.replace(BRISK, shutdown_grace="1h")
    async with posting(make_sqlite_memory, worker=settings) as app, receiving() as receiver:
        receiver.open.clear()

        @app.task
        async def work() -> None:
            return

        await work.using(webhook=receiver.url).enqueue()
        worker = asyncio.create_task(app.run_worker())
        await receiver.got(1)
        worker.cancel()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(asyncio.CancelledError):
                await worker


# ---- what does not end -----------------------------------------------------------------------------------------------


class Deaf:
    """A handler that ignores that it is to stop, until the test is over."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.released = asyncio.Event()

    def register(self, app: Holdfast, way: str) -> Any:
        if way == "thread":

            @app.task
            def blocked() -> None:
                self.begun.set()
                self.release.wait(2 * PATIENCE_S)

            return blocked

        @app.task
        async def deaf() -> None:
            self.begun.set()
            while not self.released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self.released.wait()

        return deaf

    async def over(self) -> None:
        self.release.set()
        self.released.set()
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("holdfast job")]
        await asyncio.gather(*left, return_exceptions=True)


@pytest.mark.parametrize("way", ["thread", "async"])
async def test_everything_is_closed_before_a_handler_that_does_not_stop_is_complained_of(
    make_shared_app: MakeApp, way: str
) -> None:
    order: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Holdfast) -> AsyncIterator[None]:
        yield
        order.append("cleaned up")

    app = make_shared_app(worker=SHORT, lifespan=lifespan)
    deaf = Deaf()
    task = deaf.register(app, way)
    async with app:
        handle = await task.enqueue()
    async with leaving(app) as worker:  # opens the store, and closes it
        await until(deaf.begun.is_set, "it runs")
    assert order == ["cleaned up"]
    with pytest.raises(NotOpen):
        _ = app.store
    with pytest.raises(ShutdownTimeout, match=r"within its grace of 0\.1 s"):
        worker.result()
    await deaf.over()
    async with app:
        store: Any = app.store
        assert await store.list_workers() == []
        job = await app.jobs.get(handle.number or 0)
    assert (job.state, job.attempt, job.crashes) == (JobState.QUEUED, 0, 0)
    assert [ended.outcome for ended in job.attempts] == ["interrupt"]


@pytest.mark.real_time  # a grace that must end, and suffice before for an answer
async def test_what_ended_is_posted_although_another_job_does_not_stop(make_shared_app: MakeApp) -> None:
    settings = dataclasses.replace(BRISK, shutdown_grace="1s")  # enough for an answer to be written down
    async with posting(make_shared_app, worker=settings) as app, receiving() as receiver:
        deaf = Deaf()
        task = deaf.register(app, "async")

        @app.task
        async def work() -> None:
            return

        receiver.open.clear()
        handle = await work.using(webhook=receiver.url).enqueue()
        await task.enqueue()
        async with leaving(app) as worker:
            await until(deaf.begun.is_set, "it runs")
            await receiver.got(1)
            receiver.open.set()
        assert isinstance(worker.exception(), ShutdownTimeout)
        assert (await handle.get()).webhook_sent
        await deaf.over()


async def test_a_cancellation_is_a_cancellation_and_no_timeout(memory_app: Holdfast) -> None:
    deaf = Deaf()
    await deaf.register(memory_app, "async").enqueue()
    worker = asyncio.create_task(memory_app.run_worker(stop=asyncio.Event()))
    await until(deaf.begun.is_set, "it runs")
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    await deaf.over()


# ---- on_restart="fail" -----------------------------------------------------------------------------------------------


def make_pipeline(app: Holdfast, ran: list[str], hangs: asyncio.Event) -> type[Pipeline]:
    """Register a pipeline that is not begun again, and whose second phase hangs while the event is set."""

    @app.task(on_restart="fail")
    class Once(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> int:
            ran.append("fetch")
            return 1

        @phase
        async def load(self, ctx: Context) -> int:
            ran.append("load")
            await ctx.progress(50, "half way")
            if hangs.is_set():
                await asyncio.Event().wait()
            return 2

    return Once


async def test_what_had_begun_fails_and_is_retried_by_hand_where_it_was(make_app: MakeApp) -> None:
    async with make_app(worker=SHORT) as app:
        ran: list[str] = []
        hangs = asyncio.Event()
        hangs.set()
        pipeline: Any = make_pipeline(app, ran, hangs)
        first, second = await pipeline().enqueue(), await pipeline().enqueue()
        async with leaving(app) as worker:
            await until(lambda: ran == ["fetch", "load"], "it is in its second phase")
        assert isinstance(worker.exception(), ShutdownTimeout)
        job, other = await first.get(), await second.get()
        assert (job.state, job.error_class, job.attempt) == (JobState.FAILED, "Interrupted", 1)
        assert told(job) == [("fetch", "completed", 1), ("load", "failed", None)]
        assert (other.state, other.attempt, ran) == (JobState.QUEUED, 0, ["fetch", "load"])
        hangs.clear()
        await first.retry()
        await second.cancel()
        await drained(app)
        job = await first.get()
        assert (job.state, job.run, ran) == (JobState.COMPLETED, 2, ["fetch", "load", "load"])
        assert told(job) == [("fetch", "completed", 1), ("load", "completed", 2)]


async def test_what_had_begun_and_others_may_begin_again_is_given_back(make_app: MakeApp) -> None:
    async with make_app(worker=SHORT) as app:
        begun = asyncio.Event()

        @app.task
        async def work() -> None:
            begun.set()
            await asyncio.Event().wait()

        handle = await work.enqueue()
        async with leaving(app):
            await begun.wait()
        assert (await handle.get()).state is JobState.QUEUED


async def test_the_failure_of_what_may_not_begin_again_is_posted(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app, worker=SHORT) as app, receiving() as receiver:
        begun = asyncio.Event()

        @app.task(on_restart="fail")
        async def work() -> None:
            begun.set()
            await asyncio.Event().wait()

        handle = await work.using(webhook=receiver.url).enqueue()
        async with leaving(app):
            await begun.wait()
        assert (await handle.get()).state is JobState.FAILED
        await drained(app)
        assert [request.verified()["type"] for request in receiver.requests] == ["job.failed"]


async def once_only(app: Holdfast, count: int) -> tuple[int, list[JobRow]]:
    """Enter a worker that holds jobs which are not begun again; the first of them has begun."""

    @app.task(on_restart="fail")
    async def work() -> None:
        return

    for _ in range(count):
        await work.enqueue()
    worker = await register(app.store)
    jobs = await claim(app.store, worker)
    assert len(jobs) == count
    await app.store.start_jobs([Started(jobs[0].id, jobs[0].claim, 0)])
    return worker, jobs


@pytest.mark.parametrize("how", ["interrupt", "retire", "release"])
async def test_what_had_not_begun_is_given_back_however_its_worker_leaves(app: Holdfast, how: str) -> None:
    worker, jobs = await once_only(app, 2)
    if how == "interrupt":
        await app.store.finish_jobs([interrupted(job.id, job.claim) for job in jobs])
    elif how == "retire":
        await app.store.retire_worker(worker)
    else:
        rescued = await app.store.release_worker(worker, [])
        assert (rescued.failed, rescued.requeued) == ((jobs[0].id,), (jobs[1].id,))
    begun, other = [await app.jobs.get(job.id) for job in jobs]
    assert (begun.state, begun.error_class, begun.crashes) == (JobState.FAILED, "Interrupted", 0)
    assert (other.state, other.attempt, other.crashes) == (JobState.QUEUED, 0, 0)


async def test_what_a_process_was_at_when_it_died_fails_at_its_first_crash(app: Holdfast) -> None:
    worker, jobs = await once_only(app, 3)
    rescued = await app.store.release_worker(worker, [crashed(jobs[1].id, jobs[1].claim, FAILURE)])
    assert (sorted(rescued.failed), rescued.requeued) == ([jobs[0].id, jobs[1].id], (jobs[2].id,))
    dead = await app.jobs.get(jobs[1].id)
    assert (dead.state, dead.error_class, dead.crashes) == (JobState.FAILED, FAILURE.error_class, 1)


async def test_a_job_is_not_begun_again_when_its_lease_has_ended(app: Holdfast) -> None:
    worker, jobs = await once_only(app, 2)
    await app.store.renew_workers([worker], 1)

    async def is_rescued() -> bool:
        await app.store.rescue_jobs(10)
        return JobState.RUNNING not in [(await app.jobs.get(job.id)).state for job in jobs]

    await until(is_rescued, "its lease has ended")
    # Nobody knows what had begun: each of them may have.
    assert [(await app.jobs.get(job.id)).state for job in jobs] == [JobState.FAILED] * 2
