"""A cancellation finds its job, whether it waits in a buffer or runs."""

import asyncio
import dataclasses
import threading

import pytest

from holdfast import Context, Holdfast, JobState, Pipeline, Snooze, phase
from tests.support.wait import PATIENCE_S, until, wait_until
from tests.support.workers import BRISK, MakeApp, ended, working

pytestmark = pytest.mark.usefixtures("brisk")


async def test_an_async_handler_is_told_by_cancelled_error(app: Holdfast) -> None:
    seen: list[bool] = []

    @app.task
    async def long_one(ctx: Context) -> None:
        seen.append(ctx.cancelled)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    handle = await long_one.enqueue()
    async with working(app):
        await until(lambda: seen == [False], "the handler runs")
        assert await handle.cancel(actor="me") is JobState.RUNNING
        job = await ended(handle)
    assert (job.state, job.attempt, seen) == (JobState.CANCELLED, 1, [False, True])


async def test_a_thread_sees_it_in_its_context(app: Holdfast) -> None:
    begun = threading.Event()

    @app.task
    def long_one(ctx: Context) -> None:
        begun.set()
        wait_until(lambda: ctx.cancelled, "it is cancelled")
        message = "I was told to stop"
        raise RuntimeError(message)

    handle = await long_one.enqueue()
    async with working(app):
        await until(begun.is_set, "the handler runs")
        await handle.cancel()
        assert (await ended(handle)).state is JobState.CANCELLED


async def test_a_completion_that_is_achieved_stays(app: Holdfast) -> None:
    begun = asyncio.Event()

    @app.task
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "already done"
        return "never"

    handle = await stubborn.enqueue()
    async with working(app):
        await begun.wait()
        await handle.cancel()
        job = await ended(handle)
    assert (job.state, job.result) == (JobState.COMPLETED, "already done")


async def test_a_cancelled_job_does_not_wait_again(app: Holdfast) -> None:
    """Its handler ends in another way before it is told: whatever it asks for, the mark decides."""
    release = asyncio.Event()

    @app.task
    async def asks(how: str) -> None:
        await release.wait()
        if how == "snooze":
            raise Snooze(300)
        raise ValueError(how)

    handles = [await asks.enqueue("snooze"), await asks.enqueue("retry")]
    async with working(app) as work:
        await until(lambda: work.running == 2, "both run")
        for handle in handles:
            await handle.cancel()
        release.set()
        assert [(await ended(handle)).state for handle in handles] == [JobState.CANCELLED] * 2


@pytest.mark.usefixtures("claims_ahead")
async def test_a_job_that_is_cancelled_in_the_buffer_never_starts(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.worker._LONGEST_BUFFERED_S", 60.0)
    release, ran = asyncio.Event(), []

    @app.task
    async def blocker() -> None:
        await release.wait()

    @app.task
    async def never(number: int) -> None:
        ran.append(number)

    @app.task
    async def quick() -> None: ...

    async with working(app, concurrency=1) as work:
        for _ in range(2):
            await ended(await quick.enqueue())
        await blocker.enqueue()
        await until(lambda: work.running == 1, "the slot is taken")
        handles = [await never.enqueue(number) for number in range(2)]
        await until(lambda: len(work.buffered) == 2, "two jobs wait in the buffer")
        assert await handles[0].cancel() is JobState.RUNNING
        assert (await ended(handles[0])).state is JobState.CANCELLED
        await until(lambda: work.buffered == [handles[1].number], "the worker knows that the first one has ended")
        release.set()
        assert (await ended(handles[1])).state is JobState.COMPLETED
    assert ran == [1]


async def test_no_further_phase_begins_after_a_cancellation(memory_app: Holdfast) -> None:
    order: list[str] = []

    @memory_app.task
    class Two(Pipeline):
        @phase
        def first(self, ctx: Context) -> None:
            order.append("first")
            wait_until(lambda: ctx.cancelled, "it is cancelled")

        @phase
        async def second(self, ctx: Context) -> None:
            order.append("second")

    handle = await Two().enqueue()
    async with working(memory_app):
        await until(lambda: bool(order), "the first phase runs")
        await handle.cancel()
        assert (await ended(handle)).state is JobState.CANCELLED
    assert order == ["first"]


async def test_a_cancel_that_nobody_follows_is_forced_by_upkeep(make_app: MakeApp) -> None:
    app = make_app(worker=dataclasses.replace(BRISK, cancel_grace="50ms"))
    has_begun, release = threading.Event(), threading.Event()

    @app.task
    def deaf() -> str:
        has_begun.set()
        release.wait(PATIENCE_S)
        return "too late"

    try:
        async with app, working(app) as work:
            handle = await deaf.enqueue()
            await until(has_begun.is_set, "it runs")
            await handle.cancel()
            assert (await ended(handle)).state is JobState.CANCELLED
            release.set()
            await until(lambda: work.running == 0, "the thread has ended")
            await until(lambda: work.refused == 1, "its late end was refused")
            job = await handle.get()
            assert (job.state, job.result) == (JobState.CANCELLED, None)
    finally:
        release.set()
