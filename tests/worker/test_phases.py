"""Phases through a worker: how far they are, what they leave behind, and where the next attempt goes on."""

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Fatal, Holdfast, InvalidValue, Job, JobState, Pipeline, Retry, backoff, phase
from holdfast.errors import ConfigError
from tests.support.wait import until
from tests.support.workers import MakeApp, ended, ran, working


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, whose failed attempts do not wait for the next."""
    async with make_app(retry=backoff("fixed", 0, jitter=0)) as app:
        yield app


def told(job: Job) -> list[tuple[str, str, Any]]:
    """What readers see of the phases."""
    return [(one.name, one.state.value, one.result) for one in job.phases]


async def said(app: Holdfast, ctx: Context, percent: float) -> float | None:
    """Report from a handler, and read how far the whole job is once that is stored."""
    found: list[float | None] = []
    await ctx.progress(percent)

    async def is_stored() -> bool:
        progress = (await app.jobs.get(ctx.job.number)).progress
        found[:] = [] if progress is None else [progress.percent]
        return progress is not None and progress.phase_percent == percent

    await until(is_stored, "the report is stored")
    return found[0]


# ---- progress --------------------------------------------------------------------------------------------------------


async def test_three_equal_phases_count_as_the_seed_says(app: Holdfast) -> None:
    seen: list[float | None] = []

    @app.task
    class Three(Pipeline):
        @phase
        async def download(self, ctx: Context) -> None:
            seen.append(await said(app, ctx, 50))

        @phase
        async def process(self, ctx: Context) -> None:
            seen.append(await said(app, ctx, 25))

        @phase
        async def upload(self, ctx: Context) -> None:
            seen.append(await said(app, ctx, 80))

    (job,) = await ran(app, await Three().enqueue())
    assert (seen, job.error) == ([17, 42, 93], None)
    assert job.progress is not None
    assert (job.progress.percent, job.progress.phase, job.phase) == (100, "upload", "upload")
    assert [one.percent for one in job.phases] == [100, 100, 100]


async def test_a_phase_counts_by_its_weight(app: Holdfast) -> None:
    @app.task
    class Heavy(Pipeline):
        @phase
        async def light(self, ctx: Context) -> float | None:
            return await said(app, ctx, 50)

        @phase(weight=3)
        async def heavy(self, ctx: Context) -> float | None:
            return await said(app, ctx, 50)

    @app.task(phases={"light": 1, "heavy": 7})
    async def dynamic(ctx: Context) -> None:
        for name in ("light", "heavy"):
            async with ctx.phase(name) as block:
                block.result = await said(app, ctx, 50)

    pipeline, function = await ran(app, await Heavy().enqueue(), await dynamic.enqueue())
    # 12.5 and 62.5, 6.25 and 56.25: half is rounded up
    assert told(pipeline) == [("light", "completed", 13), ("heavy", "completed", 63)]
    assert told(function) == [("light", "completed", 6), ("heavy", "completed", 56)]


async def test_what_is_said_last_is_kept_with_its_phase(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    class Talks(Pipeline):
        @phase
        async def returns(self, ctx: Context) -> None:
            for number in range(1_000):
                ctx.progress(number / 10, f"number {number}", n=number)

        @phase
        def in_a_thread(self, ctx: Context) -> None:
            for number in range(1_000):
                ctx.progress(number / 10, f"number {number}", n=number)

        @phase
        async def raises(self, ctx: Context) -> None:
            ctx.progress(20, "number 999", n=999)
            raise LookupError

    (job,) = await ran(app, await Talks().enqueue())
    assert [(one.percent, one.message, one.data) for one in job.phases] == [
        (100, "number 999", {"n": 999}),
        (100, "number 999", {"n": 999}),
        (20, "number 999", {"n": 999}),
    ]
    assert (job.phases[2].state, job.phases[2].error) == ("failed", "LookupError: ")


# ---- results ---------------------------------------------------------------------------------------------------------


async def test_a_result_is_stored_the_moment_its_phase_ends(make_shared_app: MakeApp) -> None:
    """Others see it while the next phase runs; nothing but the end of the phase itself is waited for."""
    async with make_shared_app() as app, make_shared_app() as other:
        seen: list[Any] = []

        @app.task
        class Two(Pipeline):
            @phase
            async def one(self, ctx: Context) -> dict[str, int]:
                return {"pages": 3}

            @phase
            async def two(self, ctx: Context) -> int:
                seen.append(told(await other.jobs.get(ctx.job.number))[0])
                return 1

        @app.task
        async def dynamic(ctx: Context) -> dict[str, Any]:
            async with ctx.phase("one") as block:
                block.result = ("a", None)
            seen.append(told(await other.jobs.get(ctx.job.number)))
            assert await ctx.step("two", str.upper, "b") == "B"
            seen.append(told(await other.jobs.get(ctx.job.number)))
            return dict(ctx.results)

        _, job = await ran(app, await Two().enqueue(), await dynamic.enqueue())
    one = ("one", "completed", ["a", None])
    assert ("one", "completed", {"pages": 3}) in seen
    assert [found for found in seen if isinstance(found, list)] == [[one], [one, ("two", "completed", "B")]]
    assert (job.state, job.result) == (JobState.COMPLETED, {"one": ["a", None], "two": "B"})


@pytest.mark.parametrize("policy", ["resume", "restart"])
async def test_the_next_attempt_goes_on_or_begins_anew(app: Holdfast, policy: Any) -> None:
    order: list[str] = []

    @app.task(on_retry=policy, max_attempts=3)
    class Import(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> list[int]:
            order.append("fetch")
            assert not ctx.results
            return [ctx.job.attempt]

        @phase
        async def load(self, ctx: Context) -> int:
            order.append("load")
            ctx.progress(50)
            if ctx.job.attempt < 3:
                raise Retry(reason="not yet")
            (first,) = ctx.result("fetch")
            return int(first)

        @phase
        async def tell(self, ctx: Context) -> dict[str, Any]:
            order.append("tell")
            return dict(ctx.results)

    (job,) = await ran(app, await Import().enqueue())
    first, expected = 1, ["fetch", "load", "load", "load", "tell"]
    if policy == "restart":
        first, expected = 3, ["fetch", "load"] * 3 + ["tell"]
    assert (job.state, job.attempt, order) == (JobState.COMPLETED, 3, expected)
    assert job.result == {"fetch": [first], "load": first}
    assert told(job)[:2] == [("fetch", "completed", [first]), ("load", "completed", first)]
    assert [one.claim for one in job.phases] == [first, 3, 3]


@pytest.mark.parametrize("from_phase", [None, "one", "two", "three"])
async def test_a_retry_by_hand_runs_what_is_asked_for(app: Holdfast, from_phase: str | None) -> None:
    order: list[str] = []

    @app.task
    async def work(ctx: Context) -> list[int]:
        for name in ("one", "two", "three"):
            async with ctx.phase(name) as block:
                if not block.is_completed:
                    order.append(name)
                    block.result = ctx.job.run
        if ctx.job.run == 1:
            raise Fatal
        return [ctx.result(name) for name in ("one", "two", "three")]

    handle = await work.enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, order) == (JobState.FAILED, ["one", "two", "three"])
    with pytest.raises(InvalidValue, match=r"one, two, three.*'four'"):
        await handle.retry(from_phase="four")
    order.clear()
    await handle.retry(from_phase=from_phase)
    (job,) = await ran(app, handle)
    again = {None: [], "one": ["one", "two", "three"], "two": ["two", "three"], "three": ["three"]}[from_phase]
    assert (job.state, order) == (JobState.COMPLETED, again)
    assert job.result == [2 if name in again else 1 for name in ("one", "two", "three")]


async def test_a_step_is_called_once_in_the_life_of_a_job(app: Holdfast) -> None:
    calls: list[str] = []

    async def slow(name: str) -> tuple[str, str]:
        calls.append(name)
        await asyncio.sleep(0)
        return name, threading.current_thread().name

    def quick(name: str, *, is_broken: bool) -> Any:
        calls.append(name)
        if is_broken:
            raise LookupError(name)
        return name, threading.current_thread().name

    @app.task
    async def work(ctx: Context) -> list[Any]:
        many = [ctx.step(f"slow {number}", slow, f"slow {number}") for number in range(20)]
        first = await asyncio.gather(*many, ctx.step("none", lambda: calls.append("none")))
        return [*first, await ctx.step("quick", quick, "quick", is_broken=ctx.job.attempt == 1)]

    (job,) = await ran(app, await work.enqueue())
    assert (job.state, job.attempt, job.attempts[0].error) == (JobState.COMPLETED, 2, "quick")
    assert sorted(calls) == sorted([f"slow {number}" for number in range(20)] + ["none", "quick", "quick"])
    assert job.result[:20] == [[f"slow {number}", "MainThread"] for number in range(20)]
    assert (job.result[20], job.result[21][0], "holdfast handler" in job.result[21][1]) == (None, "quick", True)
    assert {one.state.value for one in job.phases} == {"completed"}


async def test_a_name_is_used_once_in_a_run(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        async with ctx.phase("one"):
            with pytest.raises(ConfigError, match=r"'two'.*one after the other.*'one'"):
                async with ctx.phase("two"):
                    pytest.fail("two phases at once")
        for again in ("one", "two"):
            with pytest.raises(ConfigError, match=f"'{again}'.*each name once"):
                ctx.phase(again)
            with pytest.raises(ConfigError, match=f"'{again}'.*each name once"):
                await ctx.step(again, str)
        with pytest.raises(LookupError, match="'three' has no result yet; those that have: one"):
            ctx.result("three")

    (job,) = await ran(app, await work.enqueue())
    assert (job.error, told(job)) == (None, [("one", "completed", None)])


async def test_a_result_that_cannot_be_kept_fails_its_phase(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    class Odd(Pipeline):
        @phase
        async def one(self, ctx: Context) -> object:
            return object()

        @phase
        async def two(self, ctx: Context) -> None:
            pytest.fail("the first phase has no result")

    (job,) = await ran(app, await Odd().enqueue())
    assert "the result of phase one" in (job.error or "")
    assert [(one.name, one.state) for one in job.phases] == [("one", "failed"), ("two", "pending")]


# ---- deadlines, threads, processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gets_done", [True, False])
async def test_a_phase_that_takes_too_long_is_run_again(app: Holdfast, gets_done: bool) -> None:
    order: list[str] = []
    hangs = asyncio.Event()

    @app.task(max_attempts=2)
    class Slow(Pipeline):
        @phase
        async def one(self, ctx: Context) -> int:
            order.append("one")
            return ctx.job.attempt

        @phase
        async def two(self, ctx: Context) -> None:
            order.append("two")
            await ctx.progress(30, "under way")
            if not gets_done or ctx.job.attempt == 1:
                hangs.set()
                await asyncio.Event().wait()

    handle = await Slow().enqueue()
    async with working(app) as work:
        for _ in range(1 if gets_done else 2):
            await hangs.wait()
            hangs.clear()
            work.time_out()
        job = await ended(handle)
    state = JobState.COMPLETED if gets_done else JobState.FAILED
    assert (job.state, job.attempt, order) == (state, 2, ["one", "two", "two"])
    assert job.attempts[0].error_class == "holdfast.errors.TimedOut"
    one, two = job.phases
    assert (one.state, one.claim, one.result) == ("completed", 1, 1)
    assert (two.state.value, two.claim, two.message) == (state.value, 2, "under way")
    assert two.error == (None if gets_done else job.error)


async def test_a_thread_has_the_same_phases(app: Holdfast) -> None:
    @app.task
    class Threads(Pipeline):
        @phase
        def one(self, ctx: Context) -> str:
            return threading.current_thread().name

        @phase
        async def two(self, ctx: Context) -> str:
            return threading.current_thread().name

        @phase
        def three(self, ctx: Context) -> dict[str, Any]:
            return dict(ctx.results)

    @app.task(phases=("one", "two"))
    def blocks(ctx: Context) -> dict[str, Any]:
        with ctx.phase("one") as one:
            one.result = threading.current_thread().name if one.result is None else one.result
        with ctx.phase("two") as two:
            ctx.progress(50, "half")
            if ctx.job.attempt == 1:
                raise LookupError
            assert one.is_completed
            two.result = ctx.job.attempt
        return dict(ctx.results)

    pipeline, function = await ran(app, await Threads().enqueue(), await blocks.enqueue())
    assert (pipeline.error, pipeline.result["two"]) == (None, "MainThread")
    assert pipeline.result["one"].startswith("holdfast handler")
    assert (function.state, function.attempt, function.result["two"]) == (JobState.COMPLETED, 2, 2)
    assert [(one.name, one.claim) for one in function.phases] == [("one", 1), ("two", 2)]


AWAY = """
import os
from holdfast import Context, Holdfast, Pipeline, Skip, WorkerSettings, backoff, phase

app = Holdfast(
    {url!r}, schema={schema!r}, synchronous="normal", retry=backoff("fixed", 0, jitter=0),
    worker=WorkerSettings(embedded_lease="10s", kill_grace="300ms", poll="100ms"),
)

@app.task(executor="process")
class Away(Pipeline):
    @phase
    def one(self, ctx: Context) -> list:
        ctx.log.info("attempt %d", ctx.job.attempt)
        ctx.progress(50, "half", pid=os.getpid())
        return [os.getpid(), ctx.job.attempt]

    @phase
    async def two(self, ctx: Context) -> list:
        step = await ctx.step("inner", lambda: ctx.job.attempt)
        async with ctx.items("editions", ["a", "b", "c"]) as items:
            await items.each(work)
        if ctx.job.attempt == 1:
            raise LookupError("not yet")
        return [*ctx.result("one"), step, ctx.job.attempt]

async def work(key: str) -> None:
    if key == "b":
        raise Skip("old")
    if key == "c":
        raise ValueError("no")
"""


async def test_a_process_has_the_same_phases(
    make_shared_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, settings = f"away_{os.getpid()}_{tmp_path.name}", make_shared_app().config
    (tmp_path / f"{name}.py").write_text(AWAY.format(url=settings.url, schema=settings.schema), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module: Any = importlib.import_module(name)
    async with module.app:
        (job,) = await ran(module.app, await module.Away().enqueue())
        lines, items = await module.app.jobs.logs(job.id), await module.app.jobs.items(job.id)
    assert (job.state, job.attempt) == (JobState.COMPLETED_WITH_ERRORS, 2)
    pid, *rest = job.result
    assert (pid != os.getpid(), rest) == (True, [1, 1, 2])
    assert [(one.name, one.claim) for one in job.phases] == [("one", 1), ("two", 2), ("inner", 1)]
    assert (job.phases[0].message, job.phases[0].data) == ("half", {"pid": pid})
    assert [(line.claim, line.text) for line in lines] == [(1, "attempt 1")]
    assert [(item.key, item.note) for item in items if item.state == "failed"] == [("c", "ValueError: no")]
