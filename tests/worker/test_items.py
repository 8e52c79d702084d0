"""Items and lines through a worker: each item ends by itself, and the next attempt leaves out what is done."""

import asyncio
import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from holdfast import Cancel, Context, Fatal, Holdfast, JobState, Pipeline, Retry, Skip, Snooze, backoff, phase
from holdfast.errors import ConfigError, InvalidValue, OutcomeUnknown, StoreUnavailable
from holdfast.resources.job import Job
from holdfast.stores.values import ProgressReport, Verdict
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import BRISK, MakeApp, drained, ran, working

WORKERS, UPDATES = 20, size(10, 100)


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, whose failed attempts do not wait for the next."""
    async with make_app(retry=backoff("fixed", 0, jitter=0)) as app:
        yield app


def shape(completed: Any = (), skipped: Any = (), failed: Any = (), in_progress: Any = (), **other: Any) -> Any:
    """The one set `editions` as readers see it; what was skipped or failed is given as key and note."""
    word = other.get("word", "slug")
    return {
        "editions": {
            "editions_total": len(completed) + len(skipped) + len(failed) + len(in_progress),
            "editions_completed": list(completed),
            "editions_skipped": [{word: key, "reason": note} for key, note in skipped],
            "editions_failed": [{word: key, "error": note} for key, note in failed],
            "editions_in_progress": list(in_progress),
        }
    }


async def items_of(app: Holdfast, job: Job) -> dict[str, Any]:
    """The sets of items, as the store has them."""
    return (await app.store.get_jobs([job.number]))[0].items


async def edit(key: str) -> None:
    """End as the key says."""
    await asyncio.sleep(0)
    if key.startswith("old"):
        reason = f"{key} is old"
        raise Skip(reason)
    if key.startswith("bad"):
        message = f"{key} is bad"
        raise LookupError(message)
    if key.startswith("fatal"):
        raise Fatal(key)
    if key.startswith("retry"):
        raise Retry(reason=key)


# ---- ends ------------------------------------------------------------------------------------------------------------


async def test_each_item_ends_by_itself_and_the_job_with_errors(app: Holdfast) -> None:
    keys = ["good 1", "old", "bad", "fatal", "retry", "good 2"]

    @app.task
    async def work(ctx: Context, word: str) -> list[Any]:
        async with ctx.items("editions", keys, word=word) as items:
            assert await items.each(edit) == items.counts
        return [*items.counts]

    failed = [("bad", "LookupError: bad is bad"), ("fatal", "holdfast.outcomes.Fatal: fatal")]
    failed.append(("retry", "holdfast.outcomes.Retry: retry"))
    for word in ("slug", "isbn"):
        (job,) = await ran(app, await work.enqueue(word))
        assert (job.state, job.attempt, job.result) == (JobState.COMPLETED_WITH_ERRORS, 1, [2, 1, 3])
        assert await items_of(app, job) == shape(["good 1", "good 2"], [("old", "old is old")], failed, word=word)


@pytest.mark.parametrize(
    "keys, state, attempts",
    [
        pytest.param(["a", "b"], JobState.COMPLETED, 1, id="completed"),
        pytest.param([], JobState.COMPLETED, 1, id="none"),
        pytest.param(["old 1", "old 2"], JobState.COMPLETED, 1, id="skipped"),
        pytest.param(["old", "a", "bad"], JobState.COMPLETED_WITH_ERRORS, 1, id="some failed"),
        pytest.param(["bad 1", "bad 2"], JobState.FAILED, 3, id="all failed"),
        pytest.param(["old", "bad"], JobState.FAILED, 3, id="none completed"),
    ],
)
async def test_the_items_decide_how_the_job_ends(
    app: Holdfast, keys: list[str], state: JobState, attempts: int
) -> None:
    calls: Counter[str] = Counter()

    async def counted(key: str) -> None:
        calls[key] += 1
        await edit(key)

    @app.task(max_attempts=3)
    class Update(Pipeline):
        @phase
        async def update(self, ctx: Context) -> None:
            async with ctx.items("editions", keys) as items:
                await items.each(counted)

        @phase
        async def tell(self, ctx: Context) -> None: ...

    (job,) = await ran(app, await Update().enqueue())
    assert (job.state, job.attempt) == (state, attempts)
    assert calls == {key: attempts if key.startswith("bad") else 1 for key in keys}
    if state is JobState.FAILED:
        assert job.error_class == "holdfast.errors.AllItemsFailed"
        assert [one.state.value for one in job.phases] == ["failed", "pending"]
    assert (job.items["editions"].total, job.items["editions"].in_progress) == (len(keys), 0)


@pytest.mark.parametrize("outcome", [Cancel("enough"), Snooze("1h")], ids=["cancel", "snooze"])
async def test_some_outcomes_of_an_item_end_the_attempt(app: Holdfast, outcome: Exception) -> None:
    stopped: list[str] = []

    async def work(key: str) -> None:
        if key == "stop":
            raise outcome
        if key != "a":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(key)
                raise

    @app.task
    async def update(ctx: Context) -> None:
        async with ctx.items("editions", ["a", "b", "c", "stop", "d"], concurrency=4) as items:
            await items.each(work)
        pytest.fail("the attempt has ended")

    (job,) = await ran(app, await update.enqueue())
    is_cancelled = isinstance(outcome, Cancel)
    assert job.state is (JobState.CANCELLED if is_cancelled else JobState.SCHEDULED)
    assert (job.attempt, sorted(stopped)) == (1 if is_cancelled else 0, ["b", "c", "d"])
    assert await items_of(app, job) == shape(["a"], in_progress=["b", "c", "stop", "d"])


@pytest.mark.parametrize("is_thread", [False, True])
async def test_as_many_run_at_once_as_are_asked_for(memory_app: Holdfast, is_thread: bool) -> None:
    inside: set[str] = set()
    most: list[int] = []
    lock, release = threading.Lock(), threading.Event()

    def enter(key: str) -> None:
        with lock:
            inside.add(key)
            most.append(len(inside))

    async def on_the_loop(key: str) -> None:
        enter(key)
        await until(release.is_set, "all may go on")
        inside.remove(key)

    def in_a_thread(key: str) -> None:
        enter(key)
        assert release.wait(20)
        with lock:
            inside.remove(key)

    @memory_app.task
    async def work(ctx: Context) -> list[Any]:
        async with ctx.items("editions", map(str, range(30)), concurrency=3) as items:
            all_of_them = asyncio.create_task(items.each(in_a_thread if is_thread else on_the_loop))
            await until(lambda: len(inside) >= 3, "three are inside")
            for _ in range(100):  # in which another one could begin
                await asyncio.sleep(0)
            release.set()
            return [*await all_of_them]

    (job,) = await ran(memory_app, await work.enqueue())
    assert (job.result, max(most)) == ([30, 0, 0], 3)


async def test_what_cannot_be_a_set_of_items_is_refused(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work(ctx: Context) -> None:
        wrong: list[tuple[tuple[Any, Any], dict[str, Any], str]] = [
            (("x", ["a", "b", "a"]), {}, "each key once, got 'a'"),
            (("x", map(str, range(10_001))), {}, "at most 10000 items"),
            (("x", [1]), {}, "key"),
            (("", ["a"]), {}, "items"),
            (("x", ["a"]), {"word": "error"}, "word"),
            (("x", ["a"]), {"concurrency": 0}, "concurrency"),
        ]
        for given, options, why in wrong:
            with pytest.raises(InvalidValue, match=why):
                ctx.items(*given, **options)
        items = ctx.items("x", ["a"])
        with pytest.raises(ConfigError, match="async with"):
            await items.each(edit)

    (job,) = await ran(memory_app, await work.enqueue())
    assert (job.state, job.error, job.items) == (JobState.COMPLETED, None, {})


# ---- the next attempt ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timeout", "interruption", "snooze"])
async def test_completed_and_skipped_items_are_not_run_again(app: Holdfast, how: str) -> None:
    calls: list[tuple[int, str]] = []
    half = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> list[Any]:
        async def one(key: str) -> None:
            calls.append((ctx.job.claim, key))
            if key == "stop" and ctx.job.claim == 1:
                if how == "snooze":
                    raise Snooze(0)
                half.set()
                await asyncio.Event().wait()
            await edit("good" if ctx.job.claim > 1 else key)

        keys = ["a", "old", "bad", *(["gone"] if ctx.job.claim == 1 else []), "stop"]
        async with ctx.items("editions", keys, concurrency=1) as items:
            counts = await items.each(one)
        return [*counts]

    handle = await work.enqueue()
    if how != "snooze":
        async with working(app) as worker:
            await half.wait()
            worker.stop() if how == "interruption" else worker.time_out()
    await drained(app)
    job = await handle.get()
    assert [key for claim, key in calls if claim == 1] == ["a", "old", "bad", "gone", "stop"]
    assert [key for claim, key in calls if claim == 2] == ["bad", "stop"]
    assert (job.state, job.claim, job.result) == (JobState.COMPLETED, 2, [3, 1, 0])
    assert await items_of(app, job) == shape(["a", "bad", "stop"], [("old", "old is old")])


async def test_a_retry_runs_the_failed_items_and_the_phases_after_them(app: Holdfast) -> None:
    calls: list[str] = []

    @app.task
    class Update(Pipeline):
        @phase
        async def fetch(self, ctx: Context) -> list[str]:
            calls.append("fetch")
            return ["a", "old", "bad 1", "b", "bad 2"]

        @phase
        async def update(self, ctx: Context) -> list[Any]:
            async def one(key: str) -> None:
                calls.append(key)
                await edit("good" if key == "bad 1" and ctx.job.run > 1 else key)

            async with ctx.items("editions", ctx.result("fetch")) as items:
                await items.each(one)
            return [*items.counts]

        @phase
        async def tell(self, ctx: Context) -> Any:
            calls.append("tell")
            return ctx.result("update")

    handle = await Update().enqueue()
    (job,) = await ran(app, handle)
    assert (job.state, job.result) == (JobState.COMPLETED_WITH_ERRORS, [2, 1, 2])
    calls.clear()
    for expected in (["bad 1", "bad 2", "tell"], ["bad 2", "tell"]):
        await handle.retry()
        (job,) = await ran(app, handle)
        assert (calls, job.state) == (expected, JobState.COMPLETED_WITH_ERRORS)
        assert job.result == [3, 1, 1]
        calls.clear()
    assert await items_of(app, job) == shape(
        ["a", "bad 1", "b"], [("old", "old is old")], [("bad 2", "LookupError: bad 2 is bad")]
    )
    await handle.retry(from_phase="update")
    (job,) = await ran(app, handle)
    assert sorted(calls) == ["a", "b", "bad 1", "bad 2", "old", "tell"]


# ---- many at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [None, StoreUnavailable, OutcomeUnknown])
async def test_twenty_coroutines_report_at_once_and_nothing_is_lost(
    app: Holdfast, fault: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when every third write does not happen, or happens without an answer."""
    save, writes = app.store.save_progress, 0

    async def save_or_not(reports: Sequence[ProgressReport]) -> list[Verdict]:
        nonlocal writes
        writes += 1
        is_faulty = fault is not None and writes % 3 == 0
        verdicts = [] if is_faulty and fault is StoreUnavailable else await save(reports)
        if is_faulty and fault is not None:
            raise fault
        return verdicts

    monkeypatch.setattr(app.store, "save_progress", save_or_not)
    total = WORKERS * UPDATES
    ends = ("good", "old", "bad")
    keys = [f"{ends[number % 3]} {number}" for number in range(total)]
    said, seen = 0, 0

    @app.task
    async def work(ctx: Context) -> list[Any]:
        async def one(key: str) -> None:
            nonlocal said, seen
            for _ in range(2):
                said += 1
                await ctx.progress(100 * said / total / 2, f"report {said}", n=said)
            if key.endswith("0"):  # somebody looks on: whenever that is, every item is in one place
                counts = (await app.jobs.get(ctx.job.id)).items["editions"]
                ends = counts.completed + counts.skipped + counts.failed + counts.in_progress
                assert counts.total == ends == total
                seen += 1
            await ctx.step(key, lambda: key)
            await edit(key)

        async with ctx.items("editions", keys, concurrency=WORKERS) as items:
            return [*await items.each(one)]

    (job,) = await ran(app, await work.enqueue())
    by_end = {end: [key for key in keys if key.startswith(end)] for end in ends}
    assert (job.state, job.result) == (JobState.COMPLETED_WITH_ERRORS, [len(found) for found in by_end.values()])
    skipped = [(key, f"{key} is old") for key in by_end["old"]]
    failed = [(key, f"LookupError: {key} is bad") for key in by_end["bad"]]
    assert await items_of(app, job) == shape(by_end["good"], skipped, failed)
    assert job.progress is not None
    assert (job.progress.percent, job.progress.data) == (100, {"n": 2 * total})
    assert {one.name: one.result for one in job.phases} == {key: key for key in keys}
    assert seen > 0


# ---- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "logs, expected", [("ctx", ["mine 1"]), ("all", ["mine 1", "shop.db: theirs 2"]), ("none", [])]
)
async def test_lines_are_kept_as_the_worker_is_told(make_app: MakeApp, logs: Any, expected: list[str]) -> None:
    async with make_app(worker=dataclasses.replace(BRISK, logs=logs)) as app:

        @app.task
        def speak(ctx: Context) -> None:
            ctx.log.debug("too low")
            ctx.log.info("mine %d", 1)
            logging.getLogger("shop.db").warning("theirs %d", 2)

        (job,) = await ran(app, await speak.enqueue())
        assert [line.text for line in await app.jobs.logs(job.id)] == expected


async def test_a_line_hurts_its_handler_no_more_than_any_logger_would(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        logging.getLogger("holdfast.job"), "disabled", True
    )  # or pytest itself would mind the last line

    @app.task(max_attempts=1)
    async def speak(ctx: Context) -> None:
        ctx.log.info("%(number)d of them", {"number": 3})  # as logging takes it
        ctx.log.info("100 %")
        try:
            int("\x00 and \ud800")
        except ValueError as error:
            ctx.log.exception("%s", error)  # noqa: TRY401 - a text that no database takes
        ctx.log.warning("%d", "no number")

    (job,) = await ran(app, await speak.enqueue())
    assert (job.state, job.error) == (JobState.COMPLETED, None)
    lines = await app.jobs.logs(job.id)
    assert [line.level for line in lines] == ["INFO", "INFO", "ERROR", "WARNING"]
    assert [line.text for line in lines][:2] == ["3 of them", "100 %"]


async def test_two_hundred_lines_of_a_claim_are_kept(app: Holdfast) -> None:
    @app.task
    async def speak(ctx: Context, lines: int) -> None:
        for number in range(1, lines + 1):
            ctx.log.warning("line %d", number)
        if ctx.job.attempt == 1:
            raise LookupError

    few, many = await ran(app, await speak.enqueue(199), await speak.enqueue(1_000))
    assert [(line.claim, line.text) for line in await app.jobs.logs(few.id)] == [
        (claim, f"line {number}") for claim in (1, 2) for number in range(1, 200)
    ]
    for claim in (1, 2):
        *kept, last = [line for line in await app.jobs.logs(many.id) if line.claim == claim]
        assert [line.text for line in kept] == [f"line {number}" for number in range(1, 200)]
        assert (last.line, last.level) == (200, "WARNING")
        assert "the first 199 lines are kept" in last.text
