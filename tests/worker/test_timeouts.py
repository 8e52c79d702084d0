"""A handler that runs longer than it may: asked to stop, recorded, and its slot kept honest."""

import asyncio
import contextlib
import logging
import threading

import pytest

from holdfast import Context, Holdfast, JobState, Pipeline, Retry, TimedOut, backoff, phase
from tests.support.wait import PATIENCE_S, until, wait_until
from tests.support.workers import drained, ended, ran, until_state, working

NOW = backoff("fixed", "1h", jitter=0)


async def test_an_async_handler_is_cancelled_at_its_timeout(app: Holdfast) -> None:
    seen: list[str] = []

    @app.task(timeout="1h")
    async def slow(ctx: Context) -> None:
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"cancelled {ctx.cancelled}")
            raise

    handle = await slow.enqueue()
    async with working(app) as work:
        await until(lambda: seen == ["begun"], "it runs")
        work.time_out()
        job = await until_state(handle, JobState.SCHEDULED)
    assert seen == ["begun", "cancelled True"]
    assert job.attempt == 1
    assert (job.error_class, job.error) == ("holdfast.errors.TimedOut", "ran longer than its timeout of 3600 s")


async def test_a_timeout_may_be_fatal_and_the_last_attempt_fails(memory_app: Holdfast) -> None:
    @memory_app.task(timeout="50ms", fatal_on=TimedOut)
    async def fatal() -> None:
        await asyncio.Event().wait()

    @memory_app.task(timeout="50ms", max_attempts=1)
    async def last() -> None:
        await asyncio.Event().wait()

    @memory_app.task(timeout="50ms", on_error="fatal")
    async def retried() -> None:
        await asyncio.Event().wait()

    jobs = await ran(memory_app, await fatal.enqueue(), await last.enqueue(), await retried.enqueue())
    assert [job.state for job in jobs] == [JobState.FAILED, JobState.FAILED, JobState.SCHEDULED]


async def test_what_a_cancelled_handler_raises_instead_does_not_hide_the_timeout(memory_app: Holdfast) -> None:
    @memory_app.task(timeout="1h")
    async def hides() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            message = "something else"
            raise ValueError(message) from error

    @memory_app.task(timeout="1h")
    async def decides() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Retry(7_200, "I need longer") from None

    handles = [await hides.enqueue(), await decides.enqueue()]
    async with working(memory_app) as work:
        await until(lambda: work.running == 2, "both run")
        work.time_out()
        hidden, decided = [await until_state(handle, JobState.SCHEDULED) for handle in handles]
    assert hidden.error_class == "holdfast.errors.TimedOut"
    assert (decided.error, (decided.run_at - decided.attempts[-1].finished_at).total_seconds()) == (
        "I need longer",
        7_200,
    )


async def test_a_handler_that_swallows_the_cancellation_and_returns_has_completed(memory_app: Holdfast) -> None:
    @memory_app.task(timeout="1h")
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    handle = await stubborn.enqueue()
    async with working(memory_app) as work:
        await until(lambda: work.running == 1, "it runs")
        work.time_out()
        job = await ended(handle)
    assert (job.state, job.result) == (JobState.COMPLETED, "done all the same")


async def test_a_handler_that_goes_on_is_recorded_after_the_grace_and_keeps_its_slot(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    released, order = asyncio.Event(), []

    @app.task(timeout="1h", retry=NOW)
    async def deaf() -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                order.append("asked")
        order.append("ended")
        return "too late"

    @app.task
    async def next_one() -> str:
        order.append("next")
        return "mine"

    first, second = await deaf.enqueue(), await next_one.enqueue()
    async with working(app, concurrency=1) as work:
        await until(lambda: work.running == 1, "it runs")
        work.time_out()
        job = await until_state(first, JobState.SCHEDULED)
        assert (job.attempt, job.error_class) == (1, "holdfast.errors.TimedOut")
        assert (work.running, (await second.get()).started_at) == (1, None)
        assert "goes on 0.2 s after its timeout" in caplog.text
        released.set()
        assert (await ended(second)).result == "mine"
    assert order == ["asked", "ended", "next"]
    assert (await first.get()).state is JobState.SCHEDULED


async def test_a_thread_that_ignores_its_timeout_is_recorded_and_keeps_its_slot(app: Holdfast) -> None:
    has_begun, released, seen = threading.Event(), threading.Event(), []

    @app.task(timeout="1h", retry=NOW)
    def deaf(ctx: Context) -> str:
        has_begun.set()
        released.wait(PATIENCE_S)
        seen.append(ctx.cancelled)
        return "too late"

    @app.task
    def next_one() -> str:
        return "mine"

    first, second = await deaf.enqueue(), await next_one.enqueue()
    try:
        async with working(app, concurrency=1) as work:
            await until(has_begun.is_set, "it runs")
            work.time_out()
            job = await until_state(first, JobState.SCHEDULED)
            assert (job.attempt, job.error_class) == (1, "holdfast.errors.TimedOut")
            assert (work.running, (await second.get()).started_at) == (1, None)
            released.set()
            assert (await ended(second)).result == "mine"
    finally:
        released.set()
    assert seen == [True]
    now = await first.get()
    assert (now.state, now.result, now.claim) == (JobState.SCHEDULED, None, 1)


async def test_a_thread_that_looks_at_its_context_stops_in_time(memory_app: Holdfast) -> None:
    @memory_app.task(timeout="50ms")
    def attentive(ctx: Context) -> None:
        wait_until(lambda: ctx.cancelled, "it is timed out")
        message = "stopping"
        raise RuntimeError(message)

    (job,) = await ran(memory_app, await attentive.enqueue())
    assert (job.state, job.error_class) == (JobState.SCHEDULED, "holdfast.errors.TimedOut")


async def test_no_further_phase_begins_after_the_timeout(memory_app: Holdfast) -> None:
    order: list[str] = []

    @memory_app.task(timeout="1h")
    class Two(Pipeline):
        @phase
        def first(self, ctx: Context) -> None:
            order.append("first")
            wait_until(lambda: ctx.cancelled, "it is timed out")

        @phase
        async def second(self, ctx: Context) -> None:
            order.append("second")

    handle = await Two().enqueue()
    async with working(memory_app) as work:
        await until(lambda: order == ["first"], "it runs")
        work.time_out()
        job = await until_state(handle, JobState.SCHEDULED)
    assert job.error_class == "holdfast.errors.TimedOut"
    assert order == ["first"]


async def test_a_job_without_a_timeout_is_not_stopped(memory_app: Holdfast) -> None:
    release = asyncio.Event()

    @memory_app.task(timeout=None)
    async def long_one() -> str:
        await release.wait()
        return "done"

    @memory_app.task(timeout="10ms", max_attempts=1)
    async def short_one() -> None:
        await asyncio.Event().wait()

    handle = await long_one.enqueue()
    async with working(memory_app) as work:
        await until(lambda: work.running == 1, "it runs")
        assert (await ended(await short_one.enqueue())).error_class == "holdfast.errors.TimedOut"
        release.set()
        assert (await ended(handle)).result == "done"


async def test_the_timer_of_a_job_that_ends_in_time_is_gone(
    memory_app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    @memory_app.task(timeout="1h")
    async def quick() -> int:
        return 1

    @memory_app.task(timeout="1h", retry=NOW)
    async def deaf() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    handles = [await quick.enqueue(), await deaf.enqueue()]
    with caplog.at_level(logging.WARNING):
        async with working(memory_app) as work:
            job = await ended(handles[0])
            await until(lambda: work.running == 1, "the other runs alone")
            work.time_out()
            other = await until_state(handles[1], JobState.SCHEDULED)  # its timeout and its grace have passed
            release.set()
    assert await handles[0].get() == job
    assert {other.id in record.getMessage() for record in caplog.records} == {True}


@pytest.mark.real_time  # the timer of three deadlines
async def test_each_of_many_that_run_at_once_ends_at_its_own_deadline(memory_app: Holdfast) -> None:
    """They share one timer: one that is due sooner than what it waits for, and one that it finds due later."""
    told: list[str] = []

    async def hang(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append(name)
            raise

    @memory_app.task(timeout="600ms", max_attempts=1)
    async def late() -> None:
        await hang("late")

    @memory_app.task(timeout="100ms", max_attempts=1)
    async def soon() -> None:
        await hang("soon")

    @memory_app.task(timeout="300ms", max_attempts=1)
    async def between() -> None:
        await hang("between")

    handles = [await task.enqueue() for task in (late, soon, between)]
    await drained(memory_app)
    assert told == ["soon", "between", "late"]
    jobs = [await handle.get() for handle in handles]
    assert {job.error_class for job in jobs} == {"holdfast.errors.TimedOut"}
