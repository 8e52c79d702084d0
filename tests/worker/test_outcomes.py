"""How a handler ends, and what becomes of its job."""

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from holdfast import (
    Cancel,
    Context,
    Fatal,
    Holdfast,
    Job,
    JobCancelled,
    JobFailed,
    JobHandle,
    JobState,
    Pipeline,
    Retry,
    Skip,
    Snooze,
    Task,
    backoff,
    phase,
)
from holdfast.errors import InvalidValue
from holdfast.retry import Backoff
from tests.support.wait import PATIENCE_S
from tests.support.workers import MakeApp, drained, ran


class ShopError(Exception):
    """What goes wrong in a shop."""


class StockError(ShopError):
    """Something special that goes wrong."""


@dataclass
class Receipt:
    """A result with a type."""

    number: int
    day: date


def delay_s(job: Job) -> float:
    """How long the job waits between the end of its last claim and its next one, by the store's clock."""
    return (job.run_at - job.attempts[-1].finished_at).total_seconds()


async def attempts_of(app: Holdfast, handle: JobHandle[Any], most: int = 10) -> list[float]:
    """Let every attempt fail, and give the wait after each."""
    delays: list[float] = []
    for _ in range(most):
        (job,) = await ran(app, handle)
        if job.state is not JobState.SCHEDULED:
            break
        assert job.attempt == len(delays) + 1
        delays.append(delay_s(job))
        await app.jobs.reschedule(job.id, delay=0)
    return delays


# ---- returning -------------------------------------------------------------------------------------------------------


async def test_what_is_returned_is_the_result_with_its_type(app: Holdfast) -> None:
    @app.task
    async def sell(number: int) -> Receipt:
        return Receipt(number, date(2026, 2, 3))

    @app.task
    def count(words: list[str]) -> dict[str, int]:
        return {word: len(word) for word in words}

    @app.task
    async def nothing() -> None:
        return None

    sold, counted, empty = await sell.enqueue(7), await count.enqueue(["a", "bc"]), await nothing.enqueue()
    await drained(app)
    assert await sold.result(PATIENCE_S) == Receipt(7, date(2026, 2, 3))
    assert await counted.result(PATIENCE_S) == {"a": 1, "bc": 2}
    handles: list[JobHandle[Any]] = [sold, counted, empty]
    for handle in handles:
        job = await handle.get()
        assert (job.state, job.attempt, job.claim, job.error) == (JobState.COMPLETED, 1, 1, None)
        assert job.started_at is not None
        assert job.started_at <= job.finished_at  # type: ignore[operator] # a finished job has an end
    assert (await empty.get()).result is None


async def test_the_phases_of_a_pipeline_run_in_order_on_the_loop_and_in_threads(app: Holdfast) -> None:
    order: list[str] = []

    @app.task
    class Transcode(Pipeline):
        url: str

        @phase
        async def download(self, ctx: Context) -> dict[str, str]:
            order.append("download")
            return {"path": f"/tmp/{self.url}"}

        @phase(weight=3)
        def encode(self, ctx: Context) -> str:
            order.append("encode")
            return f"{ctx.result('download')['path']}.ogg"

        @phase
        async def publish(self, ctx: Context) -> list[str]:
            order.append("publish")
            return [ctx.result("encode"), ctx.job.kind]

    handle = await Transcode(url="song").enqueue()
    await drained(app)
    assert await handle.result(PATIENCE_S) == ["/tmp/song.ogg", "transcode"]
    assert order == ["download", "encode", "publish"]


async def test_a_phase_that_raises_ends_the_attempt(memory_app: Holdfast) -> None:
    order: list[str] = []

    @memory_app.task
    class Two(Pipeline):
        @phase
        async def first(self, ctx: Context) -> None:
            order.append("first")
            raise ShopError(ctx.job.kind)

        @phase
        async def second(self, ctx: Context) -> None:
            order.append("second")

    (job,) = await ran(memory_app, await Two().enqueue())
    assert (job.state, job.error, order) == (JobState.SCHEDULED, "two", ["first"])


# ---- raising ---------------------------------------------------------------------------------------------------------


async def test_five_attempts_wait_as_the_seed_says_and_then_the_job_has_failed(app: Holdfast) -> None:
    @app.task
    async def broken() -> None:
        message = "no stock"
        raise ShopError(message)

    handle = await broken.enqueue()
    delays = await attempts_of(app, handle)
    assert len(delays) == 4
    for expected, delay in zip((30, 60, 120, 240), delays, strict=True):
        assert 0.75 * expected <= delay <= 1.25 * expected
    job = await handle.get()
    assert (job.state, job.attempt, job.error) == (JobState.FAILED, 5, "no stock")
    assert [attempt.outcome for attempt in job.attempts] == ["retry"] * 4  # the last one is the job's own end
    assert all("ShopError" in (attempt.traceback or "") for attempt in job.attempts)
    with pytest.raises(JobFailed, match="no stock"):
        await handle.result(PATIENCE_S)


@pytest.mark.parametrize(
    "policy, expected",
    [
        pytest.param(backoff("fixed", "5s", jitter=0), [5, 5, 5, 5], id="fixed"),
        pytest.param(backoff("linear", "5s", jitter=0), [5, 10, 15, 20], id="linear"),
        pytest.param(backoff("exponential", "5s", jitter=0, factor=3), [5, 15, 45, 135], id="factor"),
        pytest.param(backoff(jitter=0, exponent_offset=1), [60, 120, 240, 480], id="exponent_offset"),
        pytest.param(backoff(base="30m", jitter=0), [1_800, 3_600, 3_600, 3_600], id="cap"),
        pytest.param(backoff("fixed", 0, jitter=0), [], id="none"),
    ],
)
async def test_the_delays_of_a_backoff_are_stored(memory_app: Holdfast, policy: Backoff, expected: list[int]) -> None:
    @memory_app.task(retry=policy)
    def broken() -> None:
        raise ShopError

    handle = await broken.enqueue()
    assert await attempts_of(memory_app, handle) == expected
    job = await handle.get()
    assert (job.state, job.attempt) == (JobState.FAILED, 5)


async def test_the_cap_also_holds_for_the_jitter(memory_app: Holdfast) -> None:
    @memory_app.task(retry=backoff(base="1h", jitter=0.5))
    async def broken() -> None:
        raise ShopError

    handles = await memory_app.enqueue_many(broken.call() for _ in range(20))
    delays = {delay_s(job) for job in await ran(memory_app, *handles)}
    assert max(delays) == 3_600
    assert 1_800 <= min(delays) < 3_600


async def test_the_backoff_of_the_app_is_for_tasks_without_one(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(retry=backoff("fixed", "7s", jitter=0), max_attempts=2) as app:

        @app.task
        async def broken() -> None:
            raise ShopError

        handle = await broken.enqueue()
        assert await attempts_of(app, handle) == [7]
        assert (await handle.get()).attempt == 2


# ---- outcomes --------------------------------------------------------------------------------------------------------


async def test_retry_waits_as_long_as_it_says_and_counts_as_an_attempt(app: Holdfast) -> None:
    @app.task(max_attempts=3)
    async def later(delay: int | None) -> None:
        raise Retry(delay, "not yet")

    given, by_policy = await later.enqueue(90), await later.enqueue(None)
    jobs = await ran(app, given, by_policy)
    assert [(job.state, job.attempt, job.error) for job in jobs] == [(JobState.SCHEDULED, 1, "not yet")] * 2
    assert delay_s(jobs[0]) == 90
    assert 22.5 <= delay_s(jobs[1]) <= 37.5
    await app.jobs.reschedule(jobs[0].id, delay=0)
    (job,) = await ran(app, given)
    assert (job.state, job.attempt) == (JobState.SCHEDULED, 2)
    await app.jobs.reschedule(job.id, delay=0)
    (job,) = await ran(app, given)
    assert (job.state, job.attempt, job.error) == (JobState.FAILED, 3, "not yet")


async def test_fatal_gives_up_at_once(app: Holdfast) -> None:
    @app.task
    def hopeless() -> None:
        message = "no such customer"
        raise Fatal(message)

    (job,) = await ran(app, await hopeless.enqueue())
    assert (job.state, job.attempt, job.error) == (JobState.FAILED, 1, "no such customer")
    assert job.error_class == "holdfast.outcomes.Fatal"


async def test_snooze_uses_no_attempt_and_comes_again(app: Holdfast) -> None:
    calls: list[int] = []

    @app.task(max_attempts=1)
    async def wait_for_it(ctx: Context) -> str:
        calls.append(ctx.job.attempt)
        if len(calls) < 4:
            raise Snooze(60 if len(calls) == 1 else 0)
        return "here"

    handle = await wait_for_it.enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, job.attempt, delay_s(job)) == (JobState.SCHEDULED, 0, 60)
    await app.jobs.reschedule(job.id, delay=0)
    (job,) = await ran(app, handle)
    assert (job.state, job.attempt, job.claim, job.result) == (JobState.COMPLETED, 1, 4, "here")
    assert calls == [1, 1, 1, 1]


async def test_cancel_ends_the_job_as_cancelled(app: Holdfast) -> None:
    @app.task
    async def unwanted() -> None:
        message = "nobody wants it"
        raise Cancel(message)

    handle = await unwanted.enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, job.error) == (JobState.CANCELLED, "nobody wants it")
    with pytest.raises(JobCancelled):
        await handle.result(PATIENCE_S)


async def test_skip_completes_and_keeps_its_reason_as_the_last_progress(app: Holdfast) -> None:
    @app.task
    async def import_feed(ctx: Context) -> str:
        await ctx.progress(30, "looking")
        message = "not changed"
        raise Skip(message)

    @app.task
    def skip_silently() -> None:
        raise Skip

    jobs = await ran(app, await import_feed.enqueue(), await skip_silently.enqueue())
    assert [(job.state, job.result, job.error) for job in jobs] == [(JobState.COMPLETED, None, None)] * 2
    shown = [job.progress for job in jobs]
    assert shown[0] is not None
    assert (shown[0].message, shown[0].data) == ("skipped: not changed", {"skipped": True})
    assert shown[1] is not None
    assert shown[1].message == "skipped"


async def test_an_outcome_inside_a_group_counts(app: Holdfast) -> None:
    @app.task
    async def in_group() -> None:
        async def part() -> None:
            message = "wrong customer"
            raise Fatal(message)

        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(asyncio.Event().wait())

    @app.task
    def deep() -> None:
        inner = ExceptionGroup("inner", [ShopError("a"), Snooze("5m")])
        message = "outer"
        raise ExceptionGroup(message, [ShopError("b"), inner])

    @app.task
    def without() -> None:
        message = "several"
        raise ExceptionGroup(message, [ShopError("a"), StockError("b")])

    handles = [await in_group.enqueue(), await deep.enqueue(), await without.enqueue()]
    fatal, snoozed, plain = await ran(app, *handles)
    assert (fatal.state, fatal.error) == (JobState.FAILED, "wrong customer")
    assert (snoozed.state, snoozed.attempt, delay_s(snoozed)) == (JobState.SCHEDULED, 0, 300)
    assert (plain.state, plain.attempt, plain.error_class) == (JobState.SCHEDULED, 1, "ExceptionGroup")


def test_a_wrong_delay_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidValue, match="Snooze delay"):
        Snooze(-1)
    with pytest.raises(InvalidValue, match="Retry delay"):
        Retry("soon")


# ---- which errors are worth another attempt --------------------------------------------------------------------------


async def test_the_lists_of_a_task_decide_the_special_before_the_general(memory_app: Holdfast) -> None:
    errors = {"shop": ShopError, "stock": StockError, "value": ValueError, "retry": Retry}

    @memory_app.task(fatal_on=StockError)
    async def most_are_retried(error: str) -> None:
        raise errors[error]

    @memory_app.task(on_error="fatal", retry_on=[ShopError])
    async def few_are_retried(error: str) -> None:
        raise errors[error]

    @memory_app.task(on_error="fatal", retry_on=ShopError, fatal_on=StockError)
    def both(error: str) -> None:
        raise errors[error]

    expected: dict[Task[[str], None], dict[str, bool]] = {
        most_are_retried: {"shop": True, "stock": False, "value": True, "retry": True},
        few_are_retried: {"shop": True, "stock": True, "value": False, "retry": True},
        both: {"shop": True, "stock": False, "value": False, "retry": True},
    }
    for task, answers in expected.items():
        handles = {error: await task.enqueue(error) for error in answers}
        await drained(memory_app)
        found = {error: (await handle.get()).state for error, handle in handles.items()}
        assert found == {
            error: JobState.SCHEDULED if is_retried else JobState.FAILED for error, is_retried in answers.items()
        }


async def test_the_app_decides_for_tasks_that_do_not(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(on_error="fatal") as app:

        @app.task
        async def plain() -> None:
            raise ShopError

        @app.task(on_error="retry")
        async def special() -> None:
            raise ShopError

        jobs = await ran(app, await plain.enqueue(), await special.enqueue())
        assert [job.state for job in jobs] == [JobState.FAILED, JobState.SCHEDULED]


# ---- results that cannot be kept -------------------------------------------------------------------------------------


async def test_a_result_that_cannot_be_stored_fails_the_job_and_repeats_nothing(app: Holdfast) -> None:
    effects: list[str] = []

    class BrokenModel:
        def model_dump(self, mode: str) -> Any:
            raise LookupError(mode)

    results: dict[str, Any] = {
        "broken model": BrokenModel(),
        "object": object(),
        "lambda": lambda: None,
        "nan": float("nan"),
        "huge": "x" * 300_000,
        "deep": [],
        "nul": "a\x00b",
        "surrogate": "\ud800",
        "set of odd things": {object()},
    }
    inner = results["deep"]
    for _ in range(200):
        inner.append([])
        inner = inner[0]

    @app.task
    async def give(which: str) -> Any:
        effects.append(which)
        return results[which]

    handles = {which: await give.enqueue(which) for which in results}
    results["good"] = "fine"
    good = await give.enqueue("good")
    for _ in range(2):
        await drained(app)
    assert sorted(effects) == sorted(results)
    for which, handle in handles.items():
        job = await handle.get()
        assert (job.state, job.attempt) == (JobState.FAILED, 1), which
        assert "the result of give" in (job.error or "") or which == "broken model", which
    assert await good.result(PATIENCE_S) == "fine"
