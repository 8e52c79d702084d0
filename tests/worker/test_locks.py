"""`app.lock()` and `ctx.lock()`: one holder at a time, seen by all, and nothing left behind however a body ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import (
    ConfigError,
    Context,
    Holdfast,
    InvalidValue,
    JobState,
    LockCycle,
    LockLost,
    LockTimeout,
    NotOpen,
    Skip,
)
from holdfast.client.lock_keeper import LockKeeper
from holdfast.lock import name_of
from holdfast.stores.cluster import LockAnswer
from tests.support import raw
from tests.support.clock import Clock, LaterTime, set_time
from tests.support.effects import Effects
from tests.support.moments import Moments
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import MakeApp, drained, ended, ran, until_state, working


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, and see that no test leaves a lock or a ticket behind."""
    async with make_app() as app:
        for table in ("locks", "lock_waiters"):
            await raw.execute(app.store, f"DELETE FROM holdfast.{table}")
        yield app
        await until(lambda: nothing_left(app), "no lock and no ticket is left")


@pytest.fixture
def brisk_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let locks be renewed many times a second, and last as long as ever."""
    monkeypatch.setattr("holdfast.client.lock_keeper._RENEWALS", 3_000)
    monkeypatch.setattr(LockKeeper, "poll_s", 0.01)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> LaterTime:
    """Let the test move the time by which locks are trusted, as if the process had stood still."""
    found = LaterTime()
    monkeypatch.setattr("holdfast.client.lock_keeper.time", found)
    monkeypatch.setattr(LockKeeper, "poll_s", 0.01)
    return found


async def nothing_left(app: Holdfast) -> bool:
    sizes = {size.name: size.rows for size in await app.store.measure_tables()}
    return sizes["locks"] == sizes["lock_waiters"] == 0


async def waits(app: Holdfast, count: int = 1) -> None:
    """Wait until so many wait for the only lock there is."""

    async def is_so() -> bool:
        return [row.waiters for row in await app.locks.list()] == [count]

    await until(is_so, f"{count} wait for the lock")


# ---- names ---------------------------------------------------------------------------------------------------------


def test_no_two_lists_of_parts_give_the_same_name() -> None:
    lists: list[tuple[str | int, ...]] = [
        ("a", "b", "c"),
        ("a", "b:c"),
        ("a:b", "c"),
        ("a:b:c",),
        ("a\\", "b"),
        ("a\\:b",),
    ]
    lists += [("a", ""), ("", "a"), ("a",)]
    assert len({name_of(parts) for parts in lists}) == len(lists)
    assert name_of(("edition", 42)) == "edition:42"


@pytest.mark.parametrize("parts", [(), ("",), (True,), (None,), (1.5,), ("a\x00",), ("ü" * 257,)])
def test_what_is_no_name_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValue, match="lock: expected"):
        name_of(parts)


# ---- outside of jobs -----------------------------------------------------------------------------------------------


async def test_one_holds_it_at_a_time_and_the_token_grows(app: Holdfast) -> None:
    inside, tokens = 0, []

    async def work() -> None:
        nonlocal inside
        async with app.lock("edition", 42) as lock:
            inside += 1
            assert inside == 1
            tokens.append(lock.token)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(work() for _ in range(20)))
    assert len(set(tokens)) == 20
    assert tokens == sorted(tokens)


async def test_everybody_sees_who_holds_it(app: Holdfast) -> None:
    async with app.lock("a", "b:c") as lock:
        (row,) = await app.locks.list()
    assert (row.name, row.token, row.since) == (lock.name, lock.token, lock.since)
    assert row.owner.partition("/")[2].isdigit()
    assert (row.worker, row.job, row.claim, row.waiters) == (None, None, None, 0)
    assert await app.locks.list() == []


async def test_who_waits_gets_it_at_once_when_it_is_released(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LockKeeper, "poll_s", 3_600.0)  # so that only the release can have done it
    got = asyncio.Event()

    async def wait() -> None:
        async with app.lock("x"):
            got.set()

    async with app.lock("x"):
        waiting = asyncio.create_task(wait())
        await waits(app)
        assert not got.is_set()
    async with asyncio.timeout(PATIENCE_S):
        await waiting


async def test_a_timeout_ends_the_wait_and_leaves_no_ticket(app: Holdfast) -> None:
    async def wait(timeout: float) -> None:
        async with app.lock("x", timeout=timeout):
            pass

    async with app.lock("x"):
        for timeout in (0, 0.05):
            with pytest.raises(LockTimeout, match=f"lock x: it was not free within {timeout:g} s"):
                await asyncio.create_task(wait(timeout))
    await wait(0)


async def test_the_same_task_cannot_take_it_twice(app: Holdfast) -> None:
    async with app.lock("x"):
        with pytest.raises(LockCycle, match="no lock twice"):
            async with app.lock("x"):
                pass
    async with app.lock("x"), app.lock("y"):
        pass


async def test_what_was_let_go_of_while_the_store_answered_is_no_cycle(
    app: Holdfast, later: LaterTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that was lost is released behind its body, which may ask for it again before that."""
    may_release, is_released, answers = asyncio.Event(), asyncio.Event(), []
    release, take = app.store.release_lock, app.store.take_lock

    async def release_late(name: str, owner: str) -> bool:
        await may_release.wait()
        has_others = await release(name, owner)
        is_released.set()
        return has_others

    async def answer_later(*given: Any, **options: Any) -> LockAnswer:
        answers.append(await take(*given, **options))
        may_release.set()
        await is_released.wait()
        await asyncio.sleep(0)  # whoever released it hears of that first
        return answers[-1]

    async def lose() -> None:
        async with app.lock("x"):
            later.ahead_s += LockKeeper.lasts_s
            await asyncio.Event().wait()

    monkeypatch.setattr(app.store, "release_lock", release_late)
    with pytest.raises(LockLost):
        await lose()
    monkeypatch.setattr(app.store, "take_lock", answer_later)
    async with app.lock("x"):
        pass
    assert [answer.is_cycle for answer in answers] == [True, False]


async def test_a_cancelled_wait_and_a_cancelled_body_leave_nothing(app: Holdfast) -> None:
    async def hold() -> None:
        async with app.lock("x"):
            await asyncio.Event().wait()

    for _ in range(5):
        holding, waiting = asyncio.create_task(hold()), asyncio.create_task(hold())
        await waits(app)
        for task in (waiting, holding):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    await until(lambda: nothing_left(app), "everything was requeued")


async def test_a_wait_that_is_cancelled_in_any_moment_leaves_nothing(app: Holdfast) -> None:
    async def hold() -> None:
        async with app.lock("x"):
            pass

    for steps in range(40):
        task = asyncio.create_task(hold())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until(lambda: nothing_left(app), "everything was requeued")


async def test_a_body_that_raises_leaves_nothing(app: Holdfast) -> None:
    with pytest.raises(ZeroDivisionError):
        async with app.lock("x"):
            raise ZeroDivisionError
    assert await nothing_left(app)


@pytest.mark.usefixtures("brisk_locks")
async def test_a_lock_lives_as_long_as_its_body(app: Holdfast, moments: Moments) -> None:
    clock = Clock(app.store)
    await clock.stop()
    async with app.lock("x") as lock:
        for _ in range(3):
            await clock.advance(seconds=0.8 * LockKeeper.lasts_s)
            await moments.next("locks_renewed", times=2)  # the first of them may have been under way
        with pytest.raises(LockTimeout):
            await asyncio.create_task(app.lock("x", timeout=0).__aenter__())
        (row,) = await app.locks.list()
        assert row.token == lock.token
        assert not lock.is_lost
    await set_time(app.store, None)


@pytest.mark.usefixtures("brisk_locks")
async def test_a_lost_lock_stops_the_body(app: Holdfast) -> None:
    locks = []

    async def hold() -> None:
        async with app.lock("x") as lock:
            locks.append(lock)
            await raw.execute(app.store, "UPDATE holdfast.locks SET owner = 'thief'")
            await asyncio.Event().wait()

    with pytest.raises(LockLost, match="lock x: it could not be kept"):
        await hold()
    assert locks[0].is_lost
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await raw.execute(app.store, "DELETE FROM holdfast.locks")


async def test_who_stood_still_for_too_long_is_stopped_before_others_can_begin(app: Holdfast, later: LaterTime) -> None:
    async def stand_still() -> None:
        async with app.lock("x"):
            later.ahead_s += 0.9 * LockKeeper.lasts_s  # the store would give the lock to others a little later
            await asyncio.Event().wait()

    with pytest.raises(LockLost):
        await stand_still()


@pytest.mark.usefixtures("brisk_locks")
async def test_a_cancellation_from_outside_stays_one_when_the_lock_is_lost_too(app: Holdfast) -> None:
    is_inside = asyncio.Event()

    async def hold() -> None:
        async with app.lock("x") as lock:
            is_inside.set()
            try:
                await asyncio.Event().wait()
            finally:
                await until(lambda: lock.is_lost, "it is lost too")

    task = asyncio.create_task(hold())
    await is_inside.wait()
    task.cancel()
    await raw.execute(app.store, "DELETE FROM holdfast.locks")
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_the_app_ends_every_wait(make_app: MakeApp) -> None:
    app = make_app()
    failures: list[BaseException] = []

    async def wait() -> None:
        try:
            async with app.lock("closed"):
                await asyncio.Event().wait()
        except (NotOpen, LockLost) as error:
            failures.append(error)

    async with app:
        holding = asyncio.create_task(wait())
        await waits(app, 0)
        waiting = asyncio.create_task(wait())
        await waits(app)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(holding, waiting)
    assert {type(error) for error in failures} == {NotOpen, LockLost}


async def test_a_block_is_entered_once_at_a_time(app: Holdfast) -> None:
    block = app.lock("x")
    async with block:
        with pytest.raises(ConfigError, match="entered already"):
            await block.__aenter__()
    async with block:
        pass


def test_programs_without_an_event_loop_take_turns(make_app: MakeApp) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with queue.lock("x"):
            inside += 1
            most = max(most, inside)
            inside -= 1

    with make_app().blocking() as queue:
        with queue.lock("x") as lock:
            assert [row.token for row in queue.locks.list()] == [lock.token]
            with pytest.raises(LockCycle), queue.lock("x"):
                pass
        with pytest.raises(ZeroDivisionError), queue.lock("x"):
            raise ZeroDivisionError
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert queue.locks.list() == []
    assert most == 1


# ---- in jobs -------------------------------------------------------------------------------------------------------


async def test_a_lock_in_a_job_says_for_which_job_it_is(app: Holdfast) -> None:
    seen = []

    @app.task
    async def build(ctx: Context) -> int:
        async with ctx.lock("edition", 42) as lock:
            seen.extend(await app.locks.list())
            return lock.token

    handle = await build.enqueue()
    (job,) = await ran(app, handle)
    (row,) = seen
    assert (row.job, row.claim, row.token) == (job.id, 1, job.result)
    assert row.worker is not None
    assert await app.locks.list() == []


async def test_an_sql_error_in_the_transaction_inside_leaves_nothing(app: Holdfast) -> None:
    effects = Effects(app.store)
    await effects.make()

    @app.task(max_attempts=1)
    async def pay(ctx: Context, *, is_broken: bool) -> None:
        async with ctx.lock("account", 1), ctx.transaction() as tx:
            await effects.write(tx.connection, 1)
            if is_broken:
                await effects.write(tx.connection, 1)  # which the database refuses

    jobs = await ran(app, await pay.enqueue(is_broken=True), await pay.enqueue(is_broken=False))
    assert [job.state for job in jobs] == [JobState.FAILED, JobState.COMPLETED]
    assert await effects.numbers() == [1]
    assert await app.locks.list() == []


async def test_contention_fails_no_job(app: Holdfast) -> None:
    inside, most = 0, 0

    @app.task(max_attempts=1)
    async def build(ctx: Context) -> None:
        nonlocal inside, most
        async with ctx.lock("x"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    handles = await app.enqueue_many(build.call() for _ in range(30))
    await drained(app, concurrency=10)
    assert [(await handle.get()).state for handle in handles] == [JobState.COMPLETED] * 30
    assert most == 1


async def test_the_timeout_of_a_job_ends_its_wait(app: Holdfast) -> None:
    @app.task(max_attempts=1, timeout="300ms")
    async def build(ctx: Context) -> None:
        async with ctx.lock("x"):
            pass

    async with app.lock("x"):
        (job,) = await ran(app, await build.enqueue())
        assert (job.state, job.error_class) == (JobState.FAILED, "holdfast.errors.TimedOut")
        assert [row.waiters for row in await app.locks.list()] == [0]


async def test_a_timeout_of_the_lock_is_an_error_like_any_other(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    async def build(ctx: Context) -> None:
        async with ctx.lock("x", timeout="10ms"):
            pass

    async with app.lock("x"):
        (job,) = await ran(app, await build.enqueue())
    assert (job.state, job.error_class) == (JobState.FAILED, "holdfast.errors.LockTimeout")


async def test_two_jobs_that_wait_for_each_other_both_complete(app: Holdfast) -> None:
    met = asyncio.Barrier(2)
    tries = 0

    @app.task(max_attempts=1)
    async def move(ctx: Context, first: str, second: str) -> None:
        nonlocal tries
        tries += 1
        async with ctx.lock(first):
            if tries <= 2:
                await met.wait()
            async with ctx.lock(second):
                pass

    async with working(app):
        handles = [await move.enqueue("x", "y"), await move.enqueue("y", "x")]
        jobs = [await ended(handle) for handle in handles]
    assert [(job.state, job.attempt) for job in jobs] == [(JobState.COMPLETED, 1)] * 2
    assert tries >= 3


async def test_the_items_of_a_job_may_share_a_lock(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    async def publish(ctx: Context) -> None:
        async def update(slug: str) -> None:
            async with ctx.lock("edition", slug), ctx.lock("project"):
                if slug == "old":
                    reason = "a newer build is there"
                    raise Skip(reason)

        async with ctx.items("editions", ["a", "b", "c", "old"]) as items:
            await items.each(update)

    (job,) = await ran(app, await publish.enqueue())
    assert job.state is JobState.COMPLETED
    skipped = [item for item in await app.jobs.items(job.id) if item.state == "skipped"]
    assert [(item.key, item.note) for item in skipped] == [("old", "a newer build is there")]


@pytest.mark.usefixtures("brisk_locks")
async def test_a_lost_lock_fails_the_attempt(app: Holdfast) -> None:
    @app.task(max_attempts=1)
    async def build(ctx: Context) -> None:
        async with ctx.lock("x"):
            await raw.execute(app.store, "DELETE FROM holdfast.locks")
            await asyncio.Event().wait()

    (job,) = await ran(app, await build.enqueue())
    assert (job.state, job.error_class) == (JobState.FAILED, "holdfast.errors.LockLost")


async def test_handlers_in_threads_take_turns(app: Holdfast) -> None:
    inside, most = 0, 0

    @app.task(max_attempts=1)
    def build(ctx: Context) -> int:
        nonlocal inside, most
        with ctx.lock("x") as lock:
            inside += 1
            most = max(most, inside)
            inside -= 1
            return lock.token

    jobs = await ran(app, *[await build.enqueue() for _ in range(8)])
    assert [job.state for job in jobs] == [JobState.COMPLETED] * 8
    assert len({job.result for job in jobs}) == 8
    assert most == 1


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_job_waits_no_longer(app: Holdfast, is_async: bool) -> None:
    @app.task
    async def build(ctx: Context) -> None:
        async with ctx.lock("x"):
            pass

    @app.task
    def build_in_a_thread(ctx: Context) -> None:
        with ctx.lock("x"):
            pass

    async with app.lock("x"), working(app):
        handle = await (build if is_async else build_in_a_thread).enqueue()
        await waits(app)
        await handle.cancel()
        await until_state(handle, JobState.CANCELLED)
        await waits(app, 0)


async def test_a_job_that_was_cancelled_by_force_holds_its_lock_until_its_handler_ends(app: Holdfast) -> None:
    is_inside, may_end = threading.Event(), threading.Event()

    @app.task
    def build(ctx: Context) -> None:
        with ctx.lock("x"):
            is_inside.set()
            may_end.wait(20)

    async with working(app):
        handle = await build.enqueue()
        await until(is_inside.is_set, "the handler holds the lock")
        await handle.cancel()
        await app.store.force_cancels(0, 10)
        await until_state(handle, JobState.CANCELLED)
        assert [row.job for row in await app.locks.list()] == [handle.id]
        with pytest.raises(LockTimeout):
            await app.lock("x", timeout=0).__aenter__()
        may_end.set()
        async with app.lock("x"):
            pass


async def test_a_worker_that_leaves_gives_back_a_job_that_waits(app: Holdfast) -> None:
    @app.task
    async def build(ctx: Context) -> None:
        async with ctx.lock("x"):
            pass

    async with app.lock("x"):
        async with working(app) as one:
            handle = await build.enqueue()
            await waits(app)
            one.stop()
        assert (await handle.get()).state is JobState.QUEUED
        await waits(app, 0)
    (job,) = await ran(app, handle)
    assert (job.state, job.attempt) == (JobState.COMPLETED, 1)


async def test_a_context_without_a_worker_says_so(memory_app: Holdfast) -> None:
    @memory_app.task
    async def build(ctx: Context) -> None:
        async with ctx.lock("x"):
            pass

    handle = await build.enqueue()
    with pytest.raises(ConfigError, match="needs a job that runs in a worker"):
        Context((await memory_app.store.get_jobs([handle.number or 0]))[0]).lock("x")
