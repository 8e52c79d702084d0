"""What a worker takes, in which order, how much of it, and how soon."""

import asyncio
import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Holdfast, Job, JobState, Queue, Retry
from holdfast.stores.values import Claim
from tests.support.moments import Moments
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import BRISK, MakeApp, drained, ended, ran, until_state, working
from tests.worker.faults import Faults

ROOT = Path(__file__).parents[2]
SELDOM = dataclasses.replace(BRISK, poll="1h")  # so that no poll can be why a job starts


class Gauge:
    """Counts how many run at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def run(self) -> None:
        """Take part for a moment."""
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1


# ---- slots -----------------------------------------------------------------------------------------------------------


async def test_no_more_jobs_run_at_once_than_there_are_slots(app: Holdfast) -> None:
    gauge = Gauge()

    @app.task
    async def work() -> None:
        await gauge.run()

    handles = await app.enqueue_many(work.call() for _ in range(size(60, 2_000)))
    await drained(app, concurrency=3)
    assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    assert gauge.most == 3


async def test_threads_count_too(memory_app: Holdfast) -> None:
    most, now = [0], [0]
    both, one = threading.Barrier(2), threading.Lock()

    @memory_app.task
    def work() -> None:
        with one:
            now[0] += 1
            most[0] = max(most[0], now[0])
        both.wait(PATIENCE_S)
        with one:
            now[0] -= 1

    handles = await memory_app.enqueue_many(work.call() for _ in range(20))
    await drained(memory_app, concurrency=2)
    assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    assert most[0] == 2


async def test_the_bound_of_a_queue_is_kept_and_the_other_slots_are_used(make_app: MakeApp) -> None:
    gauges = {"tight": Gauge(), "default": Gauge()}
    async with make_app(queues=[Queue("tight", workers=2)]) as app:

        @app.task(queue="tight")
        async def narrow() -> None:
            await gauges["tight"].run()

        @app.task
        async def wide() -> None:
            await gauges["default"].run()

        jobs = size(30, 500)
        calls = [narrow.call() for _ in range(jobs)] + [wide.call() for _ in range(jobs)]
        handles = await app.enqueue_many(calls)
        await drained(app, concurrency=6)
        assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    assert gauges["tight"].most == 2
    assert gauges["default"].most > 2


async def test_a_worker_that_leaves_when_empty_leaves_nothing_behind_a_bound(
    make_app: MakeApp, moments: Moments
) -> None:
    """The last look found nothing because the only queue with jobs was full: that does not mean empty."""
    often = dataclasses.replace(BRISK, poll="10ms")
    async with make_app(queues=[Queue("tight", workers=1)], worker=often) as app:

        @app.task(queue="tight")
        async def narrow() -> None:
            await moments.next("claimed", jobs=[])

        handles = await app.enqueue_many(narrow.call() for _ in range(6))
        await drained(app, concurrency=4, queues=["tight", "default"])
        assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}


# ---- order -----------------------------------------------------------------------------------------------------------


async def test_jobs_of_one_lane_start_in_the_order_they_were_enqueued(app: Holdfast) -> None:
    order: list[int] = []

    @app.task
    async def work(number: int) -> None:
        order.append(number)

    jobs = size(50, 1_000)
    for number in range(jobs // 2):
        await work.enqueue(number)
    await app.enqueue_many(work.call(number) for number in range(jobs // 2, jobs))
    await drained(app, concurrency=1)
    assert order == list(range(jobs))


async def test_lower_numbers_go_first_across_queues(make_app: MakeApp) -> None:
    order: list[str] = []
    async with make_app(queues=[Queue("bulk", priority=8), Queue("high", priority=1)]) as app:

        @app.task(queue="bulk")
        async def bulk(name: str) -> None:
            order.append(name)

        @app.task(queue="high")
        async def high(name: str) -> None:
            order.append(name)

        @app.task
        async def plain(name: str) -> None:
            order.append(name)

        calls = [
            plain.using(priority=10).call("plain 10"),
            bulk.call("bulk 8"),
            plain.call("plain 5"),
            high.call("high 1"),
            bulk.using(priority=0).call("bulk 0"),
            plain.using(priority=0).call("plain 0"),
            high.using(priority=9).call("high 9"),
        ]
        await app.enqueue_many(calls)
        await drained(app, concurrency=1)
    assert set(order[:2]) == {"bulk 0", "plain 0"}
    assert order[2:] == ["high 1", "plain 5", "bulk 8", "high 9", "plain 10"]


async def test_only_the_chosen_queues_are_worked(memory_app: Holdfast) -> None:
    @memory_app.task(queue="mine")
    async def mine() -> None: ...

    @memory_app.task(queue="yours")
    async def yours() -> None: ...

    handles = [await mine.enqueue(), await yours.enqueue()]
    await drained(memory_app, queues=["MINE"])
    assert [(await handle.get()).state for handle in handles] == [JobState.COMPLETED, JobState.QUEUED]


# ---- buffer ----------------------------------------------------------------------------------------------------------


async def test_nothing_is_claimed_beyond_the_slots_while_jobs_take_long(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def long_one() -> None:
        await release.wait()

    handles = await app.enqueue_many(long_one.call() for _ in range(20))
    async with working(app, concurrency=3) as work:
        await until(lambda: work.running == 3, "three run")
        await work.moments.next("promoted", times=2)  # it has looked again
        assert work.buffered == []
        states = [(await handle.get()).state for handle in handles]
        assert states.count(JobState.RUNNING) == 3
        release.set()
        for handle in handles:
            await ended(handle)


@pytest.mark.usefixtures("claims_ahead")
async def test_what_was_claimed_ahead_does_not_wait_behind_a_job_that_takes_long(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick jobs were followed by a long one: what waits behind it is given back, and an idle worker takes it."""
    monkeypatch.setattr("holdfast.worker.worker._LONGEST_BUFFERED_S", 3_600.0)
    release = asyncio.Event()

    @app.task
    async def long_one() -> None:
        await release.wait()

    @app.task
    async def work() -> str:
        return "done elsewhere"

    async with working(app, concurrency=1) as busy:
        await ended(await work.enqueue())
        await long_one.enqueue()
        await until(lambda: busy.running == 1, "the slot is taken")
        handle = await work.enqueue()
        await until(lambda: busy.buffered == [handle.number], "one waits in the buffer")
        monkeypatch.setattr("holdfast.worker.pump._RATE_WINDOW_S", 0.0)  # that was long ago
        monkeypatch.setattr("holdfast.worker.worker._LONGEST_BUFFERED_S", 0.0)
        async with working(app, concurrency=1):
            job = await ended(handle)
        release.set()
    assert (job.result, job.attempt, job.claim) == ("done elsewhere", 1, 2)


@pytest.mark.usefixtures("claims_ahead")
async def test_no_more_is_claimed_ahead_than_twice_the_slots(app: Holdfast, moments: Moments) -> None:
    @app.task
    async def quick() -> None: ...

    handles = await app.enqueue_many(quick.call() for _ in range(size(300, 3_000)))
    await drained(app, concurrency=4)
    assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    held, most = 0, 0
    for name, facts in moments.all:
        held += len(facts["jobs"]) if name == "claimed" else -(name == "ended")
        most = max(most, held)
    assert 4 < most <= 4 + 8


@pytest.mark.usefixtures("claims_ahead")
async def test_the_ends_of_a_batch_and_the_next_claim_are_one_call(app: Holdfast) -> None:
    @app.task
    async def quick() -> None: ...

    jobs = size(200, 2_000)
    await app.enqueue_many(quick.call() for _ in range(jobs))
    faults = Faults(app)
    await drained(app, concurrency=10)
    assert faults.calls["finish_jobs"] <= jobs / 4
    assert faults.calls["claim_jobs"] <= jobs / 10


# ---- pauses ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("claims_ahead")
async def test_a_paused_queue_is_not_claimed_and_its_buffer_is_handed_back(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.worker._LONGEST_BUFFERED_S", 60.0)
    release, ran_ = asyncio.Event(), []

    @app.task(queue="busy")
    async def blocker() -> None:
        await release.wait()

    @app.task(queue="paused")
    async def work(number: int) -> None:
        ran_.append(number)

    async with working(app, concurrency=1) as work_:
        await ended(await work.enqueue(0))
        await blocker.enqueue()
        await until(lambda: work_.running == 1, "the slot is taken")
        first = await work.enqueue(1)
        await until(lambda: work_.buffered == [first.number], "one waits in the buffer")
        await app.queues.pause("paused")
        job = await until_state(first, JobState.QUEUED)
        assert job.attempt == 0
        await until(lambda: work_.buffered == [], "the worker has handed it back")
        second = await work.enqueue(2)
        release.set()
        await until(lambda: work_.running == 0, "the slot is free")
        await ended(await blocker.enqueue())
        assert [(await handle.get()).state for handle in (first, second)] == [JobState.QUEUED] * 2
        await app.queues.resume("paused")
        for handle in (first, second):
            await ended(handle)
    assert ran_ == [0, 1, 2]


# ---- how soon --------------------------------------------------------------------------------------------------------

ENQUEUE = """
import asyncio, sys
from holdfast import Holdfast
app = Holdfast(sys.argv[1], schema=sys.argv[2])
@app.task
async def work() -> None: ...
async def main():
    async with app:
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await work.enqueue()
asyncio.run(main())
"""


async def test_a_job_of_another_process_starts_long_before_the_poll(make_shared_app: MakeApp) -> None:
    started: list[int] = []
    async with make_shared_app(worker=SELDOM) as app:

        @app.task
        async def work(ctx: Context) -> None:
            started.append(ctx.job.number)

        async with working(app):
            other = subprocess.Popen(
                [sys.executable, "-c", ENQUEUE, app.config.url, app.config.schema],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                text=True,
            )
            try:
                assert other.stdin is not None
                assert other.stdout is not None
                assert await asyncio.to_thread(other.stdout.readline) == "ready\n"
                for number in range(5):
                    other.stdin.write("go\n")
                    other.stdin.flush()
                    await until(lambda: len(started) > number, "the job has started")  # noqa: B023 - asked at once
            finally:
                other.stdin.close()  # type: ignore[union-attr] # it is a pipe
                other.wait(PATIENCE_S)
                other.stdout.close()  # type: ignore[union-attr] # likewise


async def test_a_job_of_this_process_starts_long_before_the_poll(make_app: MakeApp) -> None:
    async with make_app(worker=SELDOM) as app:

        @app.task
        async def work() -> None: ...

        async with working(app):
            for _ in range(5):
                await ended(await work.enqueue())


async def test_a_hint_that_comes_while_a_claim_is_under_way_is_not_forgotten(make_app: MakeApp) -> None:
    """The claim read the lanes before the job was there, and its reply comes after the hint."""
    async with make_app(worker=SELDOM) as app:

        @app.task
        async def work() -> str:
            return "seen"

        store: Any = app.store
        claim, answered, go_on = store.claim_jobs, asyncio.Event(), asyncio.Event()

        async def claim_slowly(asked: Claim) -> list[Job]:
            found: list[Job] = await claim(asked)
            answered.set()
            await go_on.wait()
            return found

        store.claim_jobs = claim_slowly
        async with working(app) as work_:
            await answered.wait()
            hinted = work_.moments.count("hinted", worker=work_.id)
            handle = await work.enqueue()
            await work_.moments.wait("hinted", worker=work_.id, times=hinted + 1)
            go_on.set()
            assert (await ended(handle)).result == "seen"


async def test_a_delayed_job_starts_when_it_is_due_and_not_with_the_poll(
    make_app: MakeApp, request: pytest.FixtureRequest
) -> None:
    # A SQLite file is watched for jobs that may run now; a delay is found out by the poll.
    is_file = "sqlite-file" in request.node.name
    async with make_app(worker=BRISK if is_file else SELDOM) as app:

        @app.task
        async def work() -> None: ...

        async with working(app):
            job = await ended(await work.using(delay="100ms").enqueue())
    assert job.started_at is not None
    assert job.started_at >= job.run_at


async def test_a_job_that_is_retried_soon_starts_when_it_is_due(make_app: MakeApp) -> None:
    async with make_app(worker=SELDOM) as app:

        @app.task
        async def twice(ctx: Context) -> str:
            if ctx.job.attempt == 1:
                raise Retry(0.1)
            return "at last"

        async with working(app):
            handle = await twice.enqueue()
            assert (await ended(handle)).result == "at last"


async def test_jobs_that_were_there_before_the_worker_are_found_at_once(make_app: MakeApp) -> None:
    async with make_app(worker=SELDOM) as app:

        @app.task
        async def work() -> None: ...

        handle = await work.enqueue()
        async with working(app):
            await ended(handle)
        (job,) = await ran(app, handle)
        assert job.claim == 1
