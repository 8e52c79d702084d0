"""What a running handler is given: progress, a log, the state of its process, and code around it."""

import asyncio
import contextvars
import dataclasses
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Context, Fatal, Holdfast, InvalidValue, JobState, Skip, Snooze
from holdfast.errors import ArgumentError, ConfigError, DataRefused
from holdfast.stores.values import ProgressReport
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import MakeApp, drained, ended, ran, working

Call = Callable[[], Awaitable[Any]]
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def counted(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the writes of progress, by how many reports each carried."""
    writes: list[int] = []
    save = app.store.save_progress

    async def save_counted(reports: list[ProgressReport]) -> Any:
        writes.append(len(reports))
        return await save(reports)

    monkeypatch.setattr(app.store, "save_progress", save_counted)
    return writes


# ---- progress --------------------------------------------------------------------------------------------------------


async def test_a_thousand_reports_become_few_writes_and_the_last_one_is_kept(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = size(1_000, 10_000)
    writes = counted(app, monkeypatch)

    @app.task
    async def on_the_loop(ctx: Context) -> None:
        for number in range(reports + 1):
            await ctx.progress(100 * number / reports, f"{number} of {reports}", number=number)

    @app.task
    def in_a_thread(ctx: Context) -> None:
        for number in range(reports + 1):
            ctx.progress(100 * number / reports, f"{number} of {reports}", number=number)

    jobs = await ran(app, await on_the_loop.enqueue(), await in_a_thread.enqueue())
    for job in jobs:
        assert job.state is JobState.COMPLETED
        assert job.progress is not None
        assert (job.progress.percent, job.progress.message) == (100, f"{reports} of {reports}")
        assert job.progress.data == {"number": reports}
    assert sum(writes) <= size(40, 400)


async def test_progress_of_a_running_job_can_be_seen(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def half(ctx: Context) -> None:
        await ctx.progress(50, "half way")
        await release.wait()

    handle = await half.enqueue()
    async with working(app):

        async def seen() -> bool:
            job = await handle.get()
            return job.progress is not None and job.progress.percent == 50

        await until(seen, "the progress is stored")
        job = await handle.get()
        assert (job.state, job.started_at is None) == (JobState.RUNNING, False)
        release.set()
        await ended(handle)


async def test_the_last_report_is_stored_however_the_handler_ends(app: Holdfast) -> None:
    @app.task
    async def report(ctx: Context, how: str) -> None:
        await ctx.progress(10, "begun")
        ctx.progress(99, how)  # nothing is waited for after this
        if how == "raise":
            raise ValueError(how)
        if how == "snooze":
            raise Snooze(60)
        if how == "fatal":
            raise Fatal(how)

    ways = ("return", "raise", "snooze", "fatal")
    jobs = await ran(app, *[await report.enqueue(how) for how in ways])
    for how, job in zip(ways, jobs, strict=True):
        assert job.progress is not None, how
        assert (job.progress.percent, job.progress.message) == (99, how)


@pytest.mark.parametrize("percent", [-1, 100.5, float("nan"), float("inf"), "50", [], 101])
async def test_a_percentage_outside_its_bounds_is_refused(memory_app: Holdfast, percent: Any) -> None:
    @memory_app.task
    async def report(ctx: Context) -> str:
        with pytest.raises(InvalidValue, match="percentage from 0 to 100"):
            await ctx.progress(percent)
        return "refused"

    (job,) = await ran(memory_app, await report.enqueue())
    assert (job.result, job.progress) == ("refused", None)


async def test_data_that_cannot_be_kept_is_refused_where_it_is_reported(memory_app: Holdfast) -> None:
    @memory_app.task
    async def report(ctx: Context) -> int:
        refused = 0
        for data in (object(), "x" * 20_000, float("nan"), "a\x00b"):
            try:
                await ctx.progress(1, data=data)
            except ArgumentError:
                refused += 1
        await ctx.progress(2, "a\x00b\ud800" + "x" * 5_000)
        return refused

    (job,) = await ran(memory_app, await report.enqueue())
    assert job.result == 4
    assert job.progress is not None
    assert job.progress.message is not None
    assert len(job.progress.message) <= 1_000


async def test_a_report_that_the_store_refuses_hurts_no_other(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known that passes the check in the handler and not the database; the guard is there all the same."""
    release = asyncio.Event()
    store: Any = memory_app.store
    save = store.save_progress

    async def refuse(reports: list[ProgressReport]) -> Any:
        if any(report.message == "bad" for report in reports):
            message = "no"
            raise DataRefused(message)
        return await save(reports)

    monkeypatch.setattr(store, "save_progress", refuse)

    @memory_app.task
    async def report(ctx: Context, message: str) -> str:
        await ctx.progress(5, message)
        await release.wait()
        ctx.progress(6, message)
        return message

    handles = [await report.enqueue(message) for message in ("good", "bad", "fine")]
    async with working(memory_app):
        for index in (0, 2):
            await until(_has_progress(handles[index]), "the progress is stored")
        release.set()
        jobs = [await ended(handle) for handle in handles]
    assert [job.result for job in jobs] == ["good", "bad", "fine"]


def _has_progress(handle: Any) -> Callable[[], Awaitable[bool]]:
    async def has() -> bool:
        return (await handle.get()).progress is not None

    return has


# ---- log and job -----------------------------------------------------------------------------------------------------


async def test_the_log_of_a_job_names_it(memory_app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @memory_app.task
    async def speak(ctx: Context, to: str) -> str:
        ctx.log.warning("hello %s", to)
        assert ctx.job.args == {"to": to}
        return repr(ctx)

    handle = await speak.enqueue("you")
    with caplog.at_level(logging.WARNING, "holdfast.job"):
        (job,) = await ran(memory_app, handle)
    (record,) = [record for record in caplog.records if record.name == "holdfast.job"]
    fields = vars(record)
    assert record.getMessage() == "hello you"
    assert (fields["job"], fields["kind"], fields["attempt"]) == (job.id, "speak", 1)
    assert job.result == f"<Context of job {job.id} (speak), claim 1>"


async def test_a_context_outside_of_a_worker_reports_to_nobody(memory_app: Holdfast) -> None:
    @memory_app.task
    async def noop() -> None: ...

    handle = await noop.enqueue()
    ctx: Context = Context((await memory_app.store.get_jobs([handle.number or 0]))[0])
    await ctx.progress(3)
    assert not ctx.cancelled
    assert (await handle.get()).progress is None
    with pytest.raises(ConfigError, match="needs a job that runs in a worker"):
        ctx.transaction()


# ---- lifespan --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Pool:
    """What a program opens once per process."""

    app: Holdfast
    uses: int = 0
    is_open: bool = True


async def test_what_the_lifespan_yields_is_the_state_of_every_context(make_app: MakeApp) -> None:
    pools: list[Pool] = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[Pool]:
        pools.append(Pool(app))
        yield pools[-1]
        pools[-1].is_open = False

    async with make_app(lifespan=lifespan) as app:

        @app.task
        async def use(ctx: Context[Pool]) -> bool:
            ctx.state.uses += 1
            return ctx.state.is_open and ctx.state.app is app

        @app.task
        def use_in_a_thread(ctx: Context[Pool]) -> bool:
            ctx.state.uses += 1
            return ctx.state.is_open

        handles = [await use.enqueue(), await use_in_a_thread.enqueue()]
        assert pools == []
        assert [job.result for job in await ran(app, *handles)] == [True, True]
        assert [(pool.uses, pool.is_open) for pool in pools] == [(2, False)]
        await drained(app)
        assert len(pools) == 2


async def test_a_lifespan_that_fails_stops_the_worker_before_it_claims(make_app: MakeApp) -> None:
    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        message = "no database"
        raise ConnectionError(message)
        yield

    async with make_app(lifespan=lifespan) as app:

        @app.task
        async def never() -> None: ...

        handle = await never.enqueue()
        with pytest.raises(ConnectionError, match="no database"):
            await app.run_worker(until="empty")
        job = await handle.get()
        assert (job.state, job.claim) == (JobState.QUEUED, 0)


async def test_the_lifespan_is_left_when_the_worker_is_cancelled(make_sqlite_memory: MakeApp) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        events.append("enter")
        try:
            yield
        finally:
            events.append("exit")

    async with make_sqlite_memory(lifespan=lifespan) as app:

        @app.task
        async def wait(ctx: Context) -> None:
            events.append("handler")
            try:
                await asyncio.Event().wait()
            finally:
                events.append("stopped")

        handle = await wait.enqueue()
        worker = asyncio.create_task(app.run_worker())
        await until(lambda: "handler" in events, "the handler runs")
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert events == ["enter", "handler", "stopped", "exit"]
        assert (await handle.get()).state is JobState.QUEUED


# ---- around ----------------------------------------------------------------------------------------------------------


async def test_arounds_enclose_each_run_the_first_one_outermost(app: Holdfast) -> None:
    order: list[str] = []

    @app.around
    async def outer(ctx: Context, call: Call) -> Any:
        order.append(f"outer {ctx.job.kind}")
        try:
            return await call()
        finally:
            order.append("/outer")

    @app.around
    async def inner(ctx: Context, call: Call) -> Any:
        order.append("inner")
        result = await call()
        order.append("/inner")
        return {"wrapped": result}

    @app.task
    async def work() -> str:
        order.append("work")
        return "done"

    (job,) = await ran(app, await work.enqueue())
    assert job.result == {"wrapped": "done"}
    assert order == ["outer work", "inner", "work", "/inner", "/outer"]


async def test_context_variables_reach_the_loop_and_the_threads_and_no_other_run(memory_app: Holdfast) -> None:
    @memory_app.around
    async def set_tenant(ctx: Context, call: Call) -> Any:
        if "name" in ctx.job.args:
            tenant.set(ctx.job.args["name"])
        return await call()

    @memory_app.task
    async def on_the_loop(name: str) -> str:
        await asyncio.sleep(0)
        return tenant.get()

    @memory_app.task
    def in_a_thread(name: str) -> list[str]:
        return [tenant.get(), threading.current_thread().name.partition(" handler")[0]]

    @memory_app.task
    def without() -> str:
        return tenant.get()

    handles: list[Any] = [await task.enqueue(name) for name in ("a", "b") for task in (on_the_loop, in_a_thread)]
    handles += [await without.enqueue() for _ in range(4)]
    async with working(memory_app, concurrency=2):
        jobs = [await ended(handle) for handle in handles]
    assert [job.result for job in jobs] == ["a", ["a", "holdfast"], "b", ["b", "holdfast"], *["nobody"] * 4]
    assert tenant.get() == "nobody"


async def test_what_a_handler_raises_passes_through_and_what_an_around_raises_counts(memory_app: Holdfast) -> None:
    seen: list[str] = []

    @memory_app.around
    async def look(ctx: Context, call: Call) -> Any:
        if ctx.job.kind == "refused":
            message = "not this tenant"
            raise Fatal(message)
        try:
            return await call()
        except LookupError as error:
            message = "nothing there"
            raise Skip(message) from error
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    @memory_app.task
    async def refused() -> None:
        seen.append("never")

    @memory_app.task
    async def missing() -> None:
        raise KeyError

    @memory_app.task
    def snoozing() -> None:
        raise Snooze(60)

    @memory_app.task
    async def broken() -> None:
        raise ValueError

    tasks = (refused, missing, snoozing, broken)
    jobs = await ran(memory_app, *[await task.enqueue() for task in tasks])
    states = [(job.state, job.attempt) for job in jobs]
    expected = [
        (JobState.FAILED, 1),
        (JobState.COMPLETED, 1),
        (JobState.SCHEDULED, 0),
        (JobState.SCHEDULED, 1),
    ]
    assert states == expected
    assert sorted(seen) == ["Snooze", "ValueError"]


async def test_what_a_handler_sets_in_its_context_ends_with_its_job(memory_app: Holdfast) -> None:
    """Few slots, so that jobs are started by the ends of others."""
    seen: list[str] = []

    @memory_app.task
    async def serve(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    for number in range(50):
        await serve.enqueue(str(number))
    await drained(memory_app, concurrency=2)
    assert seen == ["nobody"] * 50
