"""What once went wrong, here or in the queue that this one follows, and must not come back."""

import asyncio
import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Cancel, ClaimLost, Context, Fatal, Holdfast, Job, JobState, Pipeline, backoff, phase
from holdfast.errors import ConfigError
from holdfast.phases import PhaseState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import crashed
from tests.support.builders import FAILURE
from tests.support.effects import Effects
from tests.support.wait import until
from tests.support.workers import BRISK, MakeApp, drained, ended, ran, working


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, whose failed attempts do not wait for the next."""
    async with make_app(retry=backoff("fixed", 0, jitter=0)) as app:
        yield app


@pytest.fixture
async def effects(app: Holdfast) -> Effects:
    """Give a table of the user's own beside the jobs."""
    made = Effects(app.store)
    await made.make()
    return made


def told(job: Job) -> list[tuple[str, str, Any]]:
    """What readers see of the phases."""
    return [(one.name, one.state.value, one.result) for one in job.phases]


async def kinds_of(app: Holdfast, job: Job) -> list[str]:
    """The events that were written about a job."""
    return [event.type.value for event in await app.store.read_events(0, (), 1_000) if event.job_id == job.number]


# ---- A: a cancellation at the boundary of two phases was told twice --------------------------------------------------


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("where", ["in a phase", "between phases", "by the handler", "by force"])
async def test_a_job_is_cancelled_once_wherever_its_phases_are(make_app: MakeApp, where: str) -> None:
    is_forced = where == "by force"
    settings = dataclasses.replace(BRISK, cancel_grace="50ms" if is_forced else "30s")
    async with make_app(worker=settings) as app:
        begun, go_on = threading.Event(), threading.Event()

        @app.task
        class Three(Pipeline):
            @phase
            def one(self, ctx: Context) -> int:
                if where == "between phases":  # a thread cannot be cancelled: its phase ends well
                    begun.set()
                    while not ctx.cancelled:
                        go_on.wait(0.001)
                return 1

            @phase
            async def two(self, ctx: Context) -> int:
                await ctx.progress(50, "half way")
                if where == "by the handler":
                    raise Cancel
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if not is_forced:
                        raise
                await asyncio.to_thread(go_on.wait, 60)  # deaf until somebody else has ended the job
                return 2

            @phase
            async def three(self, ctx: Context) -> None:
                pytest.fail("the job was cancelled before")

        await app.store.watch("test", 60_000)
        handle = await Three().enqueue()
        async with working(app) as work:
            if where != "by the handler":
                await until(begun.is_set, "the phase runs")
                await handle.cancel()
            job = await ended(handle)
            go_on.set()
            await until(lambda: work.running == 0, "its handler has ended")
        job = await handle.get()
        kinds = Counter(await kinds_of(app, job))
        changes = await app.jobs.events(job.id)
        await app.store.unwatch("test")
    assert job.state is JobState.CANCELLED
    assert told(job) == [("one", "completed", 1), ("two", "cancelled", None), ("three", "cancelled", None)]
    assert (kinds["job:cancelled"], kinds["job:phase:completed"]) == (1, 1)
    assert not kinds.keys() & {"job:completed", "job:failed", "job:retrying", "job:interrupted"}
    assert sum(change.target is JobState.CANCELLED for change in changes) == 1


# ---- B: the phases of a job that was cancelled before it began stayed pending ----------------------------------------


async def test_a_job_that_is_cancelled_while_it_waits_leaves_no_phase_pending(app: Holdfast) -> None:
    @app.task
    class Import(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> int:
            return 1

        @phase
        async def load(self, ctx: Context) -> int:
            raise Fatal

    @app.task(phases=("fetch", "load"))
    async def dynamic(ctx: Context) -> None: ...

    queued, later = await Import().enqueue(), await Import().using(delay="1h").enqueue()
    function, failed = await dynamic.enqueue(), await Import().using(queue="default").enqueue()
    for handle in (queued, later, function):
        assert await handle.cancel() is JobState.CANCELLED
        job = await handle.get()
        assert told(job) == [("fetch", "cancelled", None), ("load", "cancelled", None)]
    await drained(app)
    await failed.retry()
    assert told(await failed.get()) == [("fetch", "completed", 1), ("load", "failed", None)]
    await failed.cancel()
    assert told(await failed.get()) == [("fetch", "completed", 1), ("load", "cancelled", None)]


# ---- D: a partial retry lost the results of the phases before --------------------------------------------------------


async def test_a_partial_retry_keeps_the_results_of_the_phases_before(app: Holdfast) -> None:
    order: list[str] = []

    @app.task
    class Import(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> dict[str, Any]:
            order.append("fetch")
            return {"life": ctx.job.run, "pages": [1, {"a": None}]}

        @phase
        async def load(self, ctx: Context) -> Any:
            order.append("load")
            if ctx.job.run < 4:
                raise Fatal
            return ctx.result("fetch")

    handle = await Import().enqueue()
    expected = {"life": 1, "pages": [1, {"a": None}]}
    for from_phase in (None, None, "load"):
        (job,) = await ran(app, handle)
        assert (job.state, told(job)[0]) == (JobState.FAILED, ("fetch", "completed", expected))
        await handle.retry(from_phase=from_phase)
        assert told(await handle.get())[0] == ("fetch", "completed", expected)
    (job,) = await ran(app, handle)
    assert (job.state, job.run, job.result) == (JobState.COMPLETED, 4, expected)
    assert (order, job.phases[0].claim) == (["fetch", "load", "load", "load", "load"], 1)


@pytest.mark.parametrize("from_phase", [None, "update", "tell"])
async def test_a_partial_retry_keeps_the_results_of_steps_in_the_phases_before(
    app: Holdfast, from_phase: str | None
) -> None:
    calls: list[str] = []

    def draw() -> str:
        calls.append("token")
        return "secret"

    @app.task
    class Update(Pipeline):
        @phase
        async def prepare(self, ctx: Context) -> None:
            await ctx.step("token", draw)

        @phase
        async def update(self, ctx: Context) -> None:
            async with ctx.items("editions", ["good", "bad"]) as items:
                await items.each(lambda key: 1 / 0 if key == "bad" and ctx.job.run == 1 else None)

        @phase
        async def tell(self, ctx: Context) -> Any:
            return ctx.result("token")

    handle = await Update().enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, job.result) == (JobState.COMPLETED_WITH_ERRORS, "secret")
    await handle.retry(from_phase=from_phase)
    (job,) = await ran(app, handle)
    assert (job.error, job.result, calls) == (None, "secret", ["token"])


# ---- E: after a restart nothing was known of the phase that had been interrupted -------------------------------------


@pytest.mark.parametrize("how", ["the worker leaves", "its process dies"])
async def test_an_interrupted_phase_keeps_what_it_said(app: Holdfast, how: str) -> None:
    order: list[str] = []
    half, never = asyncio.Event(), asyncio.Event()

    @app.task
    class Update(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> int:
            return 7

        @phase
        async def update(self, ctx: Context) -> Any:
            async with ctx.items("editions", ["a", "b", "c"], concurrency=1) as items:
                await ctx.progress(40, "a is done", left=["b", "c"])
                await items.each(lambda key: work(ctx, key))
            return ctx.result("fetch")

    async def work(ctx: Context, key: str) -> None:
        order.append(key)
        if key == "b" and ctx.job.claim == 1:
            half.set()
            await never.wait()

    async def is_half_way() -> bool:
        return await ended_items() == ["a"]

    async def ended_items(state: str = "completed") -> list[str]:
        return [item.key for item in await app.jobs.items(handle.id) if item.state == state]

    handle = await Update().enqueue()
    async with working(app) as one:
        await half.wait()
        await until(is_half_way, "the first item is stored")
        before = (await handle.get()).phases[1]
        await app.queues.pause("default")
        if how == "its process dies":
            await app.store.finish_jobs([crashed(handle.number or 0, 1, FAILURE)])
        one.stop()
    job = await handle.get()
    assert (job.state, job.claim, job.crashes) == (JobState.QUEUED, 1, int(how == "its process dies"))
    assert job.phases[1] == replace(before, state=PhaseState.PENDING)
    assert (before.state, before.percent, before.message) == (PhaseState.RUNNING, 40, "a is done")
    assert (before.data, before.started_at is None) == ({"left": ["b", "c"]}, False)
    assert job.progress is not None
    assert (job.progress.percent, job.phase, told(job)[0]) == (70, "update", ("fetch", "completed", 7))
    assert await ended_items("in_progress") == ["b", "c"]
    await app.queues.resume("default")
    (job,) = await ran(app, handle)
    assert (job.state, job.result, order) == (JobState.COMPLETED, 7, ["a", "b", "b", "c"])
    assert await ended_items() == ["a", "b", "c"]
    assert [one.claim for one in job.phases] == [1, 2]


# ---- the start of a phase was written over its end, which its own transaction had committed --------------------------


async def test_an_effect_and_the_end_of_its_phase_are_one_commit_for_good(app: Holdfast, effects: Effects) -> None:
    seen: list[Any] = []

    @app.task
    class Pay(Pipeline):
        @phase
        async def pay(self, ctx: Context) -> str:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, ctx.job.claim)
                tx.result = {"paid": ctx.job.claim}
            seen.append(told(await app.jobs.get(ctx.job.number))[0])
            return "this is ignored"

        @phase
        async def tell(self, ctx: Context) -> Any:
            await ctx.progress(50, "telling")
            await until(self.is_telling, "that is stored")
            seen.append(told(await app.jobs.get(ctx.job.number))[0])
            if ctx.job.attempt == 1:
                raise LookupError
            return ctx.result("pay")

        async def is_telling(self) -> bool:
            return (await handle.get()).phase == "tell"

    handle = await Pay().enqueue()
    (job,) = await ran(app, handle)
    assert (await effects.numbers(), seen) == ([1], [("pay", "completed", {"paid": 1})] * 3)
    assert (job.state, job.attempt, job.result) == (JobState.COMPLETED, 2, {"paid": 1})
    assert told(job) == [("pay", "completed", {"paid": 1}), ("tell", "completed", {"paid": 1})]


async def test_each_phase_has_one_transaction(app: Holdfast, effects: Effects) -> None:
    @app.task(phases=("one", "two", "three"))
    async def pay(ctx: Context) -> None:
        for number, name in enumerate(("one", "two")):
            async with ctx.phase(name):
                async with ctx.transaction() as tx:
                    await effects.write(tx.connection, number)
                with pytest.raises(ConfigError, match="one transaction"):
                    async with ctx.transaction():
                        pytest.fail("a second transaction")
        async with ctx.phase("three"):
            with contextlib.suppress(LookupError):
                async with ctx.transaction() as tx:
                    await effects.write(tx.connection, 7)
                    raise LookupError
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 2)

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, job.error, await effects.numbers()) == (JobState.COMPLETED, None, [0, 1, 2])


async def test_what_a_zombie_writes_in_a_phase_is_rolled_back_with_its_end(app: Holdfast, effects: Effects) -> None:
    told_of: list[type[BaseException]] = []

    @app.task
    class Pay(Pipeline):
        @phase
        async def pay(self, ctx: Context) -> None:
            ends = [crashed(ctx.job.number, ctx.job.claim, FAILURE)] if ctx.job.claim == 1 else []
            # On SQLite nobody could take it away inside the block: there writers exclude each other.
            is_inside = isinstance(app.store, PostgresStore)
            try:
                await app.store.finish_jobs([] if is_inside else ends)
                async with ctx.transaction() as tx:
                    await effects.write(tx.connection, ctx.job.claim)
                    tx.result = ctx.job.claim
                    await app.store.finish_jobs(ends) if is_inside else None
            except ClaimLost as error:
                told_of.append(type(error))
                raise

        @phase
        async def tell(self, ctx: Context) -> Any:
            return ctx.result("pay")

    handle = await Pay().enqueue()
    async with working(app) as work:
        job = await ended(handle)
        await until(lambda: work.running == 0, "all have ended")
    assert (told_of, await effects.numbers()) == ([ClaimLost], [2])
    assert (job.state, job.result, job.crashes, job.phases[0].claim) == (JobState.COMPLETED, 2, 1, 2)


# ---- the last phase of a job that its own transaction completed was said to wait, and its last report was lost -------


@pytest.mark.parametrize("is_recorded", [False, True], ids=["at once", "later"])
async def test_a_job_that_is_completed_by_its_transaction_has_completed_its_last_phase(
    app: Holdfast, is_recorded: bool
) -> None:
    @app.task
    class Pay(Pipeline):
        @phase
        async def count(self, ctx: Context) -> int:
            return 1

        @phase
        async def pay(self, ctx: Context) -> str:
            if is_recorded:
                await until(self.is_known, "the start of the phase is stored")
            await ctx.progress(50, "paying", left=0)
            async with ctx.transaction() as tx:
                tx.result = "paid"
            return "this is ignored"

        async def is_known(self) -> bool:
            return (await handle.get()).phase == "pay"

    handle = await Pay().enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, job.result) == (JobState.COMPLETED, "paid")
    assert told(job) == [("count", "completed", 1), ("pay", "completed", "paid")]
    assert (job.phases[1].percent, job.phases[1].message) == (100, "paying")
    assert job.progress is not None
    assert (job.progress.percent, job.progress.message, job.progress.data) == (100, "paying", {"left": 0})
