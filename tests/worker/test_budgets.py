"""Budgets as handlers meet them: what is set aside before, what they report, and what happens at the ceiling."""

import asyncio
import logging
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from holdfast import Budget, BudgetExceeded, Context, Holdfast, JobState, Snooze
from tests.support.clock import set_time
from tests.support.wait import until
from tests.support.workers import MakeApp, drained, ended, ran, until_state, working


def ai(**options: Any) -> Budget:
    """A budget of ten dollars a day for the kind `work`, unless changed."""
    given: dict[str, Any] = {"name": "ai", "amount": "$10", "period": "day", "kinds": ("work",)}
    return Budget(**(given | options))


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app with that budget, on each store in turn."""
    async with make_app(budgets=[ai()]) as app:
        yield app


async def sums(app: Holdfast, key: str = "") -> tuple[int, int, int]:
    """Read what was spent, is reserved, and may have been spent."""
    now, _ = await app.store.read_budgets()
    rows = await app.store.list_periods("ai", now, 100)
    return next(((row.spent, row.reserved, row.lost) for row in rows if row.key == key), (0, 0, 0))


async def test_a_handler_spends_and_sees_how_far_its_budget_is(make_app: MakeApp) -> None:
    async with make_app(budgets=[ai(thresholds=[(0.5, "reduce"), (1.0, "stop")])]) as app:
        seen: list[Any] = []

        @app.task(estimate="$6")
        async def work(ctx: Context) -> None:
            for amount in (1, "$3.50", Decimal("0.5")):
                assert ctx.budget is not None
                seen.append((ctx.budget.spent, ctx.budget.reserved, ctx.budget.remaining, ctx.budget.level))
                await ctx.spend(amount, note="a call")
            assert ctx.budget is not None
            seen.append((ctx.budget.spent, ctx.budget.reserved, ctx.budget.remaining, ctx.budget.level))
            assert (ctx.budget.share, ctx.budget.estimate) == (0.5, Decimal(6))
            assert str(ctx.budget) == "ai: $5.00 of $10.00 spent (reduce)"

        (job,) = await ran(app, await work.enqueue())
        assert (job.state, job.error) == (JobState.COMPLETED, None)
        assert seen == [(0, 6, 4, "normal"), (1, 5, 4, "normal"), (4.5, 1.5, 4, "normal"), (5, 1, 4, "reduce")]
        assert await sums(app) == (5_000_000, 0, 0)
        entries = await app.store.read_ledger("ai", 10)
        assert [(row.amount, row.note) for row in entries] == [
            (500_000, "a call"),
            (3_500_000, "a call"),
            (1_000_000, "a call"),
        ]


async def test_a_handler_in_a_thread_just_calls(app: Holdfast) -> None:
    @app.task
    def work(ctx: Context) -> float:
        ctx.spend(0.25)
        ctx.spend(2, "tokens")  # not the unit of its budget
        assert ctx.budget is not None
        return float(ctx.budget.spent)

    (job,) = await ran(app, await work.enqueue())
    assert job.result == 0.25
    assert [(row.budget, row.unit) for row in await app.store.read_ledger(None, 10)] == [
        (None, "tokens"),
        ("ai", "usd"),
    ]


async def test_without_a_budget_it_is_only_written_down(app: Holdfast) -> None:
    @app.task
    async def other(ctx: Context) -> None:
        assert ctx.budget is None
        await ctx.spend(7)

    (job,) = await ran(app, await other.enqueue())
    assert job.state is JobState.COMPLETED
    (entry,) = await app.store.read_ledger(None, 10)
    assert (entry.budget, entry.amount, entry.job_id) == (None, 7_000_000, job.number)


async def test_at_the_ceiling_a_job_fails_at_once(app: Holdfast) -> None:
    runs: list[int] = []

    @app.task(estimate="$4")
    async def work(ctx: Context) -> None:
        runs.append(ctx.job.number)
        await ctx.spend(4)

    handles = [await work.enqueue() for _ in range(3)]
    await drained(app, concurrency=1)
    jobs = [await handle.get() for handle in handles]
    assert sorted(job.state for job in jobs) == ["completed", "completed", "failed"]
    (failed,) = (job for job in jobs if job.state is JobState.FAILED)
    assert (failed.error_class, failed.attempt) == ("holdfast.outcomes.BudgetExceeded", 1)
    assert failed.error is not None
    assert "$8.00 are spent" in failed.error
    assert failed.number not in runs
    assert await sums(app) == (8_000_000, 0, 0)


async def test_an_enqueue_may_say_what_it_needs(app: Holdfast) -> None:
    @app.task(budget="ai", estimate="$4")
    async def draw(ctx: Context) -> float:
        assert ctx.budget is not None
        return float(ctx.budget.estimate)

    many, few = await draw.using(estimate="$11").enqueue(), await draw.using(estimate=0.5).enqueue()
    first, second = await ran(app, many, few)
    assert (first.state, second.result) == (JobState.FAILED, 0.5)


async def test_without_an_estimate_the_mean_counts(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> float:
        await ctx.spend(1)
        await ctx.spend(2)
        assert ctx.budget is not None
        return float(ctx.budget.estimate)

    (first,) = await ran(app, await work.enqueue())
    (second,) = await ran(app, await work.enqueue())  # by another worker, which has not asked before
    assert (first.result, second.result) == (0, 3)


async def test_a_deferred_job_waits_for_the_next_period_or_a_raise(make_app: MakeApp) -> None:
    async with make_app(budgets=[ai(thresholds=[(1.0, "defer")])]) as app:

        @app.task(estimate="$6")
        async def work(ctx: Context) -> None:
            await ctx.spend(6)

        handles = [await work.enqueue() for _ in range(2)]
        await drained(app, concurrency=1)
        first, second = [await handle.get() for handle in handles]
        assert (first.state, second.state, second.attempt) == (JobState.COMPLETED, JobState.HELD, 0)
        await app.settings.set("budgets.ai.amount", "$20")
        assert (await ran(app, handles[1]))[0].state is JobState.COMPLETED


async def test_a_handler_may_give_up_by_itself(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        async with ctx.items("pages", ["a", "b"], concurrency=1) as items:
            await items.each(stop)

    async def stop(_key: str) -> None:
        message = "the next batch would be too much"
        raise BudgetExceeded(message)

    (job,) = await ran(app, await work.enqueue())
    assert (job.state, job.error_class, job.attempt) == (JobState.FAILED, "holdfast.outcomes.BudgetExceeded", 1)


async def test_from_a_threshold_on_its_jobs_get_half_of_the_slots(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(budgets=[ai(amount="$100", thresholds=[(0.1, "reduce")])]) as app:
        now: set[int] = set()
        most: list[int] = []
        go = asyncio.Event()

        @app.task(estimate="$1")
        async def work(ctx: Context) -> None:
            now.add(ctx.job.number)
            most.append(len(now))
            await ctx.spend(10)
            await go.wait()
            now.discard(ctx.job.number)

        first = await work.enqueue()
        async with working(app, concurrency=4):
            await until_state(first, JobState.RUNNING)
            go.set()
            await ended(first)
            go.clear()
            handles = await app.enqueue_many(work.call() for _ in range(6))
            for handle in handles:
                await until_state(handle, JobState.RUNNING, JobState.SCHEDULED)
            await until(lambda: len(now) == 2, "two have begun")
            go.set()
            for handle in handles:
                await ended(handle)
        assert max(most) == 2


async def test_what_was_spent_is_written_although_the_handler_was_cancelled(app: Holdfast) -> None:
    @app.task(estimate="$2", max_attempts=1)
    async def work(ctx: Context) -> None:
        reported = ctx.spend(1)
        asyncio.current_task().cancel()  # type: ignore[union-attr] # inside of a task there is one
        await reported

    (job,) = await ran(app, await work.enqueue())
    assert job.state is JobState.FAILED
    assert [row.amount for row in await app.store.read_ledger("ai", 10)] == [1_000_000]
    assert await sums(app) == (1_000_000, 0, 0)


async def test_an_interrupted_handler_that_has_ended_keeps_nothing_set_aside(app: Holdfast) -> None:
    begun = asyncio.Event()

    @app.task(estimate="$2")
    async def work(ctx: Context) -> None:
        await ctx.spend(1)
        begun.set()
        await asyncio.Event().wait()

    handle = await work.enqueue()
    async with working(app) as work_on:
        await begun.wait()
        work_on.stop()
        await work_on.task
    job = await handle.get()
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)
    assert await sums(app) == (1_000_000, 0, 0)


async def test_a_snoozed_job_sets_aside_anew(app: Holdfast) -> None:
    @app.task(estimate="$2")
    async def work(ctx: Context) -> None:
        await ctx.spend(0.5)
        if ctx.job.claim == 1:
            raise Snooze(0)

    (job,) = await ran(app, await work.enqueue())
    assert (job.state, job.claim) == (JobState.COMPLETED, 2)
    assert await sums(app) == (1_000_000, 0, 0)


async def test_a_zombie_tells_what_it_spent(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(estimate="$2")
    async def work(ctx: Context) -> None:
        if ctx.job.claim > 1:
            return
        begun.set()
        try:
            await go.wait()
        finally:
            await ctx.spend(1)

    handle = await work.enqueue()
    with caplog.at_level(logging.WARNING, "holdfast"):
        async with working(app) as work_on:
            await begun.wait()
            await app.store.release_worker(work_on.id, [])
            go.set()
            await until_state(handle, JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED)
    (entry,) = await app.store.read_ledger("ai", 10)
    assert (entry.is_late, entry.claim, entry.amount) == (True, 1, 1_000_000)
    assert "written down as late: $1.00" in caplog.text


async def test_inside_of_a_transaction_it_is_written_too(app: Holdfast) -> None:
    @app.task(estimate="$2")
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.spend(1)
            tx.result = "done"

    (job,) = await ran(app, await work.enqueue())
    assert (job.state, job.result) == (JobState.COMPLETED, "done")
    assert await sums(app) == (1_000_000, 0, 0)


async def test_the_period_is_that_of_the_store(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(budgets=[ai(tz="America/New_York", period="month")]) as app:

        @app.task(estimate="$6")
        async def work(ctx: Context) -> str:
            await ctx.spend(6)
            assert ctx.budget is not None
            return ctx.budget.starts_at.isoformat()

        now, _ = await app.store.read_budgets()
        (first,) = await ran(app, await work.enqueue())
        await set_time(app.store, now.replace(year=now.year + 1, month=4, day=1, hour=3, minute=59))
        (second,) = await ran(app, await work.enqueue())
        await set_time(app.store, now.replace(year=now.year + 1, month=4, day=1, hour=4, minute=0, second=0))
        (third,) = await ran(app, await work.enqueue())
        assert [job.state for job in (first, second, third)] == [JobState.COMPLETED] * 3
        assert (second.result, third.result) == (
            f"{now.year + 1}-03-01T05:00:00+00:00",
            f"{now.year + 1}-04-01T04:00:00+00:00",
        )
