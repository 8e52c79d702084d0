"""Limits in a running worker: what waits goes on, permits are used in time, a handler can slow its queue down."""

import asyncio
import time
from itertools import pairwise

from holdfast import Holdfast, JobHandle, JobState, Limit, Queue, Throttle
from holdfast.worker.parts import bounds_of
from tests.support.wait import PATIENCE_S
from tests.support.workers import MakeApp, drained, ended, working


async def test_no_more_run_at_once_than_the_limit_says_and_all_run(make_app: MakeApp) -> None:
    app = make_app(limits=[Limit(name="shots", key="args.tenant", concurrency=2)])
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    pairs = {tenant: asyncio.Barrier(2) for tenant in "ab"}  # each job ends beside another

    @app.task(limits=["shots"])
    async def shoot(tenant: str) -> None:
        running[tenant] = running.get(tenant, 0) + 1
        most[tenant] = max(most.get(tenant, 0), running[tenant])
        async with asyncio.timeout(PATIENCE_S):
            await pairs[tenant].wait()
        running[tenant] -= 1

    async with app:
        # All of them wait when the worker begins: one that comes later may find nobody of its tenant running.
        handles = await app.enqueue_many(shoot.call(tenant="ab"[n % 2]) for n in range(40))
        async with working(app, concurrency=10):
            states = [(await ended(handle)).state for handle in handles]
    assert set(states) == {JobState.COMPLETED}
    assert most == {"a": 2, "b": 2}


async def test_a_start_waits_for_its_permit_and_is_not_later_than_that_lasts(make_app: MakeApp) -> None:
    app = make_app(limits=[Limit(name="calls", throttle="100/s")])
    started: list[float] = []

    @app.task(limits=["calls"])
    async def call() -> None:
        started.append(time.time())

    async with app, working(app, concurrency=10):
        handles: list[JobHandle[None]] = [await call.enqueue() for _ in range(30)]
        jobs = await app.store.get_jobs([(await ended(handle)).number for handle in handles])
    permits = sorted(job.extra["permit_at"] / 1e6 for job in jobs)
    assert all(round((later - earlier) * 1e3) >= 10 for earlier, later in pairwise(permits))
    assert all(begun >= permit - 0.003 for begun, permit in zip(sorted(started), permits, strict=True))


async def test_throttle_lets_the_queue_rest_and_uses_no_attempt(app: Holdfast) -> None:
    calls: list[float] = []

    @app.task(queue="slow")
    async def ask() -> None:
        calls.append(time.monotonic())
        if len(calls) == 1:
            raise Throttle(0.1, "too many requests")

    async with app:
        first = await ask.enqueue()
        async with working(app, concurrency=1):
            job = await ended(first)
            second = await ended(await ask.enqueue())
    assert (job.state, job.attempt, job.attempts[0].outcome) == (JobState.COMPLETED, 1, "throttle")
    assert job.attempts[0].error == "too many requests"
    assert second.state is JobState.COMPLETED
    assert calls[1] - calls[0] >= 0.09


async def test_a_throttled_queue_is_not_worked_until_then(app: Holdfast) -> None:
    @app.task
    async def ask(rests: bool) -> None:
        if rests:
            raise Throttle(3_600)

    async with app:
        await ask.enqueue(rests=True)
        await drained(app)
        other = await ask.enqueue(rests=False)
        await drained(app)
        assert (await other.get()).state is JobState.QUEUED


def test_a_limit_per_instance_is_dealt_to_its_processes(make_app: MakeApp) -> None:
    limits = [Limit(name="shots", queue="shots", concurrency=3, scope="instance")]
    settings = make_app(limits=limits, queues=[Queue("shots", workers=8), Queue("mail", workers=2)]).parts.settings
    dealt = [bounds_of(settings, 4, index) for index in range(4)]
    assert [bounds["shots"] for bounds in dealt] == [1, 1, 1, 0]
    assert sum(bounds["mail"] for bounds in dealt) == 2
