"""`ctx.transaction()` in a worker: the effect and the end of the job are one commit, or neither happens."""

import asyncio
import dataclasses
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Cancel, ClaimLost, ConfigError, Context, Fatal, Holdfast, JobState, OutcomeUnknown, Snooze
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Started, Verdict
from holdfast.transitions import crashed
from tests.support.builders import FAILURE
from tests.support.effects import Effects
from tests.support.wait import until
from tests.support.workers import BRISK, MakeApp, drained, ended, ran, working


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, with a budget that no busy machine spends."""
    settings = dataclasses.replace(BRISK, lease="300s", embedded_lease="300s", transaction_budget="30s")
    async with make_app(worker=settings) as app:
        yield app


@pytest.fixture
async def effects(app: Holdfast) -> Effects:
    """Give a table of the user's own beside the jobs."""
    made = Effects(app.store)
    await made.make()
    return made


def fail() -> None:
    """Raise something, as a statement that a body calls may."""
    raise LookupError


async def test_effect_result_and_completion_are_one(app: Holdfast, effects: Effects) -> None:
    after: list[JobState] = []

    @app.task
    async def pay(ctx: Context, number: int) -> str:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, number)
            tx.result = {"paid": number}
        after.append((await app.jobs.get(ctx.job.number)).state)
        return "this is ignored"

    jobs = await ran(app, *[await pay.enqueue(number) for number in range(5)])
    assert [(job.state, job.result, job.attempt) for job in jobs] == [
        (JobState.COMPLETED, {"paid": number}, 1) for number in range(5)
    ]
    assert await effects.numbers() == list(range(5))
    assert after == [JobState.COMPLETED] * 5
    assert all(job.started_at is not None for job in jobs)


async def test_an_error_after_the_block_is_only_logged(
    app: Holdfast, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def pay(ctx: Context, number: int) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, number)
        if number == 1:
            raise Snooze(60)
        message = "the mail server is down"
        raise RuntimeError(message)

    with caplog.at_level(logging.WARNING):
        jobs = await ran(app, *[await pay.enqueue(number) for number in range(2)])
    assert [(job.state, job.error) for job in jobs] == [(JobState.COMPLETED, None)] * 2
    assert await effects.numbers() == [0, 1]
    assert "the mail server is down" in caplog.text


async def test_a_timeout_after_the_block_changes_nothing(app: Holdfast, effects: Effects) -> None:
    is_committed, stopped = asyncio.Event(), []

    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
        is_committed.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.cancelled)

    handle = await pay.enqueue()
    async with working(app) as work:
        await is_committed.wait()
        work.time_out()
        await until(lambda: work.running == 0, "it was stopped")
    job = await handle.get()
    assert stopped == [True]
    assert (job.state, job.error, await effects.numbers()) == (JobState.COMPLETED, None, [1])


async def test_a_second_transaction_is_refused(app: Holdfast, effects: Effects) -> None:
    refused: list[str] = []

    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            with pytest.raises(ConfigError, match="one transaction"):
                async with ctx.transaction():
                    refused.append("never")
        try:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 2)
        except ConfigError as error:
            refused.append(str(error))

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, await effects.numbers()) == (JobState.COMPLETED, [1])
    assert len(refused) == 1
    assert "one transaction" in refused[0]


async def test_two_transactions_at_once_are_one_too_many(app: Holdfast, effects: Effects) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        async def one(number: int) -> None:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, number)

        answers = await asyncio.gather(one(1), one(2), return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), ConfigError]

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, job.error, await effects.numbers()) == (JobState.COMPLETED, None, [1])


@pytest.mark.parametrize("how", ["raise", "fatal", "snooze", "cancel", "cancelled"])
async def test_what_is_raised_inside_rolls_back_and_applies(app: Holdfast, effects: Effects, how: str) -> None:
    @app.task(timeout="200ms" if how == "cancelled" else None)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            if how == "cancelled":
                await asyncio.Event().wait()
            errors: dict[str, Exception] = {
                "raise": ValueError("no"),
                "fatal": Fatal("no"),
                "snooze": Snooze(60),
                "cancel": Cancel("no"),
            }
            raise errors[how]

    (job,) = await ran(app, await pay.enqueue())
    expected = {
        "raise": (JobState.SCHEDULED, 1),
        "fatal": (JobState.FAILED, 1),
        "snooze": (JobState.SCHEDULED, 0),
        "cancel": (JobState.CANCELLED, 1),
        "cancelled": (JobState.SCHEDULED, 1),
    }
    assert (job.state, job.attempt) == expected[how]
    assert await effects.numbers() == []


async def test_after_a_rolled_back_transaction_there_may_be_another(app: Holdfast, effects: Effects) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        try:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 1)
                fail()
        except LookupError:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 2)

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, await effects.numbers()) == (JobState.COMPLETED, [2])


async def test_a_result_that_cannot_be_kept_rolls_back_and_fails(app: Holdfast, effects: Effects) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            tx.result = object()

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, job.attempt, await effects.numbers()) == (JobState.FAILED, 1, [])
    assert "the result of pay" in (job.error or "")


async def test_the_connection_belongs_to_the_block(app: Holdfast) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        block: Any = ctx.transaction()
        with pytest.raises(ConfigError, match="not open"):
            block.connection.execute("SELECT 1")
        async with block as tx:
            assert tx is block
        with pytest.raises(ConfigError, match="not open"):
            block.connection.execute("SELECT 1")

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, job.error) == (JobState.COMPLETED, None)


async def test_what_a_zombie_writes_is_rolled_back_and_it_is_told(app: Holdfast, effects: Effects) -> None:
    """Somebody else takes the claim away while the body runs."""
    told: list[BaseException] = []
    store: Any = app.store

    @app.task
    async def pay(ctx: Context) -> str:
        if ctx.job.claim > 1:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 2)
                tx.result = "the heir"
            return ""
        # On SQLite nobody could take it away inside the block: there writers exclude each other.
        is_inside = isinstance(store, PostgresStore)
        take_away = store.finish_jobs
        ends = [crashed(ctx.job.number, ctx.job.claim, FAILURE)]
        try:
            if not is_inside:
                await take_away(ends)
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 1)
                if is_inside:
                    await take_away(ends)
        except ClaimLost as error:
            told.append(error)
            raise
        return "never"

    handle = await pay.enqueue()
    async with working(app) as work:
        job = await ended(handle)
        await until(lambda: work.running == 0, "all have ended")
        await until(lambda: work.refused == 1, "what it wrote was refused")
    assert [type(error) for error in told] == [ClaimLost]
    assert (job.state, job.claim, job.result, job.crashes) == (JobState.COMPLETED, 2, "the heir", 1)
    assert await effects.numbers() == [2]


async def test_a_commit_whose_reply_is_lost_gives_the_claim_back_uncharged(
    app: Holdfast, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the commits went through: the fence refuses to give those back, and the others run again."""
    store: Any = app.store
    transaction = store.transaction
    faults = iter([True, False, True, False])

    @asynccontextmanager
    async def in_doubt(budget_s: float) -> AsyncIterator[Any]:
        is_lost = next(faults, None)
        message = "the link broke during the commit"
        if is_lost is None:
            async with transaction(budget_s) as tx:
                yield tx
        elif is_lost:  # the reply alone
            async with transaction(budget_s) as tx:
                yield tx
            raise OutcomeUnknown(message)
        else:  # the whole commit
            try:
                async with transaction(budget_s) as tx:
                    yield tx
                    fail()
            except LookupError:
                raise OutcomeUnknown(message) from None

    monkeypatch.setattr(store, "transaction", in_doubt)

    @app.task
    async def pay(ctx: Context, number: int, swallow: bool) -> str:
        try:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, number)
                tx.result = number
        except OutcomeUnknown:
            if not swallow:
                raise
        return "not known"

    handles = [await pay.enqueue(number, number > 1) for number in range(4)]
    await drained(app, concurrency=1)
    jobs = [await handle.get() for handle in handles]
    assert [(job.state, job.attempt, job.result) for job in jobs] == [
        (JobState.COMPLETED, 1, number) for number in range(4)
    ]
    assert await effects.numbers() == [0, 1, 2, 3]


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite-memory", "sqlite-file"])
async def sqlite_app(request: pytest.FixtureRequest) -> AsyncIterator[Holdfast]:
    """Give an open app on each kind of SQLite."""
    make: MakeApp = request.getfixturevalue(f"make_{request.param.replace('-', '_')}")
    async with make() as app:
        yield app


async def test_a_thread_says_with_on_sqlite(sqlite_app: Holdfast) -> None:
    store: Any = sqlite_app.store
    effects = Effects(store)
    await effects.make()

    @sqlite_app.task
    def pay(ctx: Context, number: int) -> str:
        with ctx.transaction() as tx:
            tx.connection.execute("INSERT INTO holdfast_effects VALUES (?)", (number,))
            tx.result = threading.current_thread().name
            if number == 1:
                raise Fatal
        return "ignored"

    kept, rolled_back = await ran(sqlite_app, await pay.enqueue(0), await pay.enqueue(1))
    assert kept.state is JobState.COMPLETED
    assert kept.result.startswith("holdfast handler")
    assert (rolled_back.state, await effects.numbers()) == (JobState.FAILED, [0])


async def test_a_body_over_its_budget_is_rolled_back(make_sqlite_file: MakeApp) -> None:
    async with make_sqlite_file(worker=dataclasses.replace(BRISK, transaction_budget="100ms")) as app:
        store: Any = app.store
        effects = Effects(store)
        await effects.make()
        went_on: list[str] = []

        @app.task
        async def slow(ctx: Context) -> None:
            async with ctx.transaction() as tx:
                await effects.write(tx.connection, 1)
                await app.jobs.list()  # reading goes on
                await other.enqueue()  # who writes waits until the budget is spent, and no longer
                went_on.append("after the budget")

        @app.task
        async def other() -> None: ...

        (job,) = await ran(app, await slow.enqueue())
        assert (job.state, job.attempt, await effects.numbers()) == (JobState.SCHEDULED, 1, [])
        assert job.error_class == "holdfast.errors.TransactionTooLong"
        assert went_on == ["after the budget"]


async def test_a_thread_is_refused_on_postgres(make_postgres: MakeApp) -> None:
    async with make_postgres() as app:

        @app.task(max_attempts=1)
        def pay(ctx: Context) -> None:
            with ctx.transaction():
                pass

        (job,) = await ran(app, await pay.enqueue())
        assert (job.state, job.error_class) == (JobState.FAILED, "holdfast.errors.ConfigError")
        assert "async def" in (job.error or "")


async def test_progress_in_the_body_is_stored_after_it(app: Holdfast, effects: Effects) -> None:
    @app.task
    async def pay(ctx: Context) -> None:
        await ctx.progress(10, "before")
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            await ctx.progress(80, "inside")

    (job,) = await ran(app, await pay.enqueue())
    assert (job.state, await effects.numbers()) == (JobState.COMPLETED, [1])


async def test_a_start_that_is_written_during_the_commit_takes_nobody_for_a_zombie(
    app: Holdfast, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is gone because the job's own commit moved it."""
    after: list[int] = []
    entered, go_on, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            entered.set()
            await go_on.wait()
        await asyncio.sleep(0)
        after.append(1)

    async def start_late(started: Sequence[Started]) -> list[Verdict]:
        await entered.wait()
        answered.set()
        return [Verdict.LOST] * len(started)  # what the store answers when the commit was faster

    monkeypatch.setattr(app.store, "start_jobs", start_late)
    handle = await pay.enqueue()
    async with working(app) as work:
        await answered.wait()
        await asyncio.sleep(0)  # in which the worker has the answer
        go_on.set()
        job = await ended(handle)
        await until(lambda: work.running == 0, "it has ended")
        assert work.refused == 0
    assert (job.state, after) == (JobState.COMPLETED, [1])
