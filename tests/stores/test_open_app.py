"""An app that is open on a store in memory: with and without an event loop, in other threads, and in tests."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from holdfast import Call, Holdfast, Queue
from holdfast.errors import (
    ConfigError,
    InvalidValue,
    JobCancelled,
    JobNotFound,
    KeyConflict,
    NotOpen,
    ResultTimeout,
    WrongState,
)
from holdfast.job import JobState
from holdfast.stores.values import JobFilter
from holdfast.testing import in_memory


def make_app() -> Holdfast:
    app = Holdfast("sqlite://", queues=[Queue("bulk", priority=8)])

    @app.task(queue="bulk")
    def work(number: int) -> int:
        return number

    return app


def call_of(app: Holdfast, number: int) -> Call[Any]:
    return app.tasks.get("work").call(number)


def test_a_program_without_an_event_loop_has_the_same_verbs() -> None:
    app = make_app()
    with app.blocking() as queue:
        first = queue.enqueue(call_of(app, 1))
        rest = queue.enqueue_many(call_of(app, number) for number in (2, 3))
        assert (first.created, first.get().priority) == (True, 8)
        assert {job.number for job in queue.jobs.iterate()} == {first.number, *(handle.number for handle in rest)}
        assert queue.jobs.get(first.id).args == {"number": 1}
        assert first.cancel(actor="me", reason="no") is JobState.CANCELLED
        with pytest.raises(JobCancelled):
            first.result(timeout=5)
        with pytest.raises(ResultTimeout):
            rest[0].result(timeout=0.05)
        with pytest.raises(InvalidValue, match="state: expected one of blocked"):
            queue.jobs.list(JobFilter(states=cast("Any", ("lost",))))
    assert "holdfast blocking" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(NotOpen):
        first.get()


async def test_an_open_app_is_shared_with_other_threads() -> None:
    app = make_app()

    def other_thread() -> int | None:
        with app.blocking() as queue:
            return queue.enqueue(call_of(app, 1)).number

    async with app:
        made = await asyncio.to_thread(other_thread)
        assert [job.number async for job in app.jobs.iterate()] == [made]
        with pytest.raises(ConfigError, match="inside it, use `await`"), app.blocking():
            pass
        async with app:
            assert len((await app.jobs.list()).jobs) == 1
        assert len((await app.jobs.list()).jobs) == 1
    with pytest.raises(NotOpen, match="the app is not open"):
        await app.jobs.list()


async def test_refusals_say_what_to_do_next() -> None:
    app = make_app()
    async with app:
        job = await app.enqueue(call_of(app, 1))
        with pytest.raises(WrongState, match="it is queued; cancel it first, then delete it"):
            await app.jobs.delete(job.id)
        with pytest.raises(WrongState, match="it is queued and will run by itself"):
            await job.retry()
        await job.cancel()
        with pytest.raises(WrongState, match="only a job that waits can change its place, retry it instead"):
            await app.jobs.reprioritise(job.id, 1)
        assert await job.retry() is JobState.QUEUED
        assert (await app.jobs.reschedule(job.id, delay="1h")).state is JobState.SCHEDULED
        with pytest.raises(InvalidValue, match="expected either run_at or delay"):
            await app.jobs.reschedule(job.id)
        await job.cancel()
        await app.jobs.delete(job.id)
        with pytest.raises(JobNotFound, match="there is no such job"):
            await job.get()
        with pytest.raises(InvalidValue, match="job id: expected"):
            await app.jobs.get(-1)


async def test_many_calls_are_answered_one_to_one_and_a_key_stands_for_one_request() -> None:
    app = make_app()
    task = app.tasks.get("work")
    async with app:
        handles = await app.enqueue_many(task.using(unique=str(number % 3)).call(number) for number in range(6))
        assert [handle.created for handle in handles] == [True] * 3 + [False] * 3
        assert [handle.number for handle in handles[:3]] == [handle.number for handle in handles[3:]]
        first = await task.using(key="k").enqueue(1)
        again = await task.using(key="k").enqueue(1)
        assert (again.number, again.created) == (first.number, False)
        with pytest.raises(KeyConflict, match=f"used by job {first.id} for another kind or other arguments"):
            await task.using(key="k").enqueue(2)
        with pytest.raises(KeyConflict, match=r"^1 of 2 calls were refused, all others accepted: \[1\] key 'k'"):
            await app.enqueue_many([task.call(7), task.using(key="k").call(2)])
        assert {"number": 7} in [job.args async for job in app.jobs.iterate()]
        with pytest.raises(InvalidValue, match=r"pass enqueue_many\(calls, connection=...\)"):
            await app.enqueue_many([task.using(connection=object()).call(1)])


async def test_what_was_enqueued_can_be_asserted() -> None:
    app = make_app()
    async with in_memory(app) as jobs:
        async with app:
            await app.enqueue(call_of(app, 1))
        assert [job.args for job in await jobs.enqueued("work", number=1)] == [{"number": 1}]
        await jobs.assert_enqueued(app.tasks.get("work"))
        await jobs.assert_not_enqueued("work", number=2)
        with pytest.raises(AssertionError, match=r"no work\(number=2\) was enqueued; .*: work\(number=1\)"):
            await jobs.assert_enqueued("work", number=2)
        with pytest.raises(AssertionError, match=r"1 x work\(number=1\) enqueued"):
            await jobs.assert_not_enqueued("work", number=1)
    async with in_memory(app) as jobs:
        with pytest.raises(AssertionError, match="nothing was enqueued at all"):
            await jobs.assert_enqueued("work")


async def test_a_test_moves_the_clock_of_the_store() -> None:
    app = make_app()
    async with in_memory(app) as jobs:
        frozen = await jobs.clock.freeze(datetime(2030, 1, 1, tzinfo=UTC))
        job = await app.tasks.get("work").using(delay="1h").enqueue(1)
        assert (await job.get()).run_at - frozen == timedelta(hours=1)
        assert await jobs.clock.advance("2h") == frozen + timedelta(hours=2)
        later = await app.enqueue(call_of(app, 2))
        assert (await later.get()).enqueued_at == frozen + timedelta(hours=2)
        await jobs.clock.run()
        assert (await (await app.enqueue(call_of(app, 3))).get()).enqueued_at < frozen
