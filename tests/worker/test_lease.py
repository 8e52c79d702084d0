"""Staying alive for the others, and what a worker does that was taken for dead."""

import asyncio
import dataclasses
import logging
import sys
import threading
from typing import Any

import pytest

from holdfast import Context, Holdfast, Job, JobState
from holdfast.stores.values import Claim, Lane, Renewal
from holdfast.transitions import Transition, crashed
from holdfast.worker import starting
from holdfast.worker.lease import Lease, trusted_for
from tests.support import raw
from tests.support.builders import FAILURE
from tests.support.clock import Clock, LaterTime
from tests.support.moments import Moments
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import BRISK, MakeApp, drained, ended, ran, until_state, working
from tests.worker.faults import LeaseFaults


async def declare_dead(app: Holdfast, worker: int, *ends: Transition) -> None:
    """Do what another instance does that finds the process gone."""
    store: Any = app.store
    await store.release_worker(worker, list(ends))


# ---- renewing --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brisk")
async def test_an_embedded_worker_renews_its_lease_while_handlers_wait(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def long_one() -> str:
        await release.wait()
        return "mine"

    store: Any = app.store
    clock = Clock(store)
    await clock.stop()
    handle = await long_one.enqueue()
    async with working(app) as work:
        await until(lambda: work.running == 1, "it runs")
        (row,) = await store.list_workers()
        assert (row.id, row.dead_at, row.info.concurrency) == (work.id, None, 10)
        lease = row.lease_until - row.renewed_at
        for _ in range(3):
            await clock.advance(0.8 * lease)
            await work.moments.next("renewed", times=2)  # the first of them may have been under way
            assert (await store.rescue_jobs(100)).workers == 0
        (row,) = await store.list_workers()
        assert row.lease_until - clock.now == lease
        told = row.memory_bytes  # at its last renewal; this process has at least an interpreter
        assert told > 5_000_000 if sys.platform == "linux" else told is None
        release.set()
        assert (await ended(handle)).result == "mine"
    assert await store.list_workers() == []


def test_trust_ends_before_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr("time.monotonic_ns", lambda: now[0])
    assert trusted_for(0, 10) == 8
    now[0] = 7_900_000_000
    assert trusted_for(0, 10) > 0
    now[0] = 8_100_000_000
    assert trusted_for(0, 10) < 0


class SilentLeases:
    """Renews, or does not."""

    def __init__(self) -> None:
        self.renewals = 0

    async def renew_workers(self, workers: list[int], lease_ms: int, memory: dict[int, int | None]) -> Renewal:
        """Say that all are alive."""
        self.renewals += 1
        return Renewal(frozenset(workers), [])


async def test_who_slept_does_not_judge_others_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000_000]
    monkeypatch.setattr("time.monotonic_ns", lambda: now[0])
    leases: Any = SilentLeases()
    lease = Lease(leases, 9.0, lambda: {1: None}, lambda renewal, sent: None)
    now[0] += 3_000_000_000
    await lease.renew()
    assert lease.is_steady
    now[0] += 20_000_000_000  # a laptop's lid
    assert not lease.is_steady
    assert not lease.is_trusted
    await lease.renew()
    assert lease.is_trusted
    assert not lease.is_steady  # first it waits whether the others renew as well
    now[0] += 2_900_000_000
    await lease.renew()
    assert not lease.is_steady
    now[0] += 200_000_000
    assert lease.is_steady


# ---- declared dead ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brisk")
async def test_a_worker_that_was_declared_dead_stops_its_handlers_and_goes_on_under_a_fresh_id(app: Holdfast) -> None:
    events: list[str] = []
    release = threading.Event()

    @app.task
    async def on_the_loop(ctx: Context) -> str:
        if ctx.job.claim > 1:
            return "the second time"
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            events.append(f"stopped {ctx.cancelled}")
        return "never"

    @app.task
    def in_a_thread(ctx: Context) -> str:
        if ctx.job.claim > 1:
            return "the second time"
        events.append("begun")
        release.wait(PATIENCE_S)
        return "what a zombie returns"

    handles = [await on_the_loop.enqueue(), await in_a_thread.enqueue()]
    try:
        async with working(app) as work:
            await until(lambda: len(events) == 2, "both run")
            first = work.id
            await declare_dead(app, first)
            await until(lambda: "stopped True" in events, "the handler was stopped")
            await work.moments.wait("adopted", former=first)
            assert [(await ended(handle)).result for handle in handles] == ["the second time"] * 2
            release.set()
            await until(lambda: work.running == 0, "the zombie has ended")
            await until(lambda: work.refused == 2, "what it returned was dropped")
    finally:
        release.set()
    for handle in handles:
        job = await handle.get()
        assert (job.state, job.claim, job.attempt, job.crashes) == (JobState.COMPLETED, 2, 1, 0)


async def test_it_also_finds_out_when_it_claims(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """No renewal comes for an hour: the next claim is sooner."""
    monkeypatch.setattr("holdfast.worker.lease._LONGEST_INTERVAL_S", 3_600.0)
    async with make_app(worker=dataclasses.replace(BRISK, embedded_lease="3h")) as app:

        @app.task
        async def work() -> str:
            return "done"

        async with working(app) as work_:
            await ended(await work.enqueue())
            first = work_.id
            await declare_dead(app, first)
            assert (await ended(await work.enqueue())).result == "done"
            assert work_.id != first


async def test_a_rescuer_that_judges_by_the_clock_is_obeyed(make_app: MakeApp) -> None:
    """By another's look at the clock the lease has ended: nothing that the worker does counts any more."""
    release = asyncio.Event()
    async with make_app() as app:

        @app.task
        async def long_one(ctx: Context) -> str:
            if ctx.job.claim == 1:
                await release.wait()
            return f"claim {ctx.job.claim}"

        store: Any = app.store
        handle = await long_one.enqueue()
        async with working(app) as work:
            await until(lambda: work.running == 1, "it runs")
            sql = f"UPDATE holdfast.workers SET lease_until = renewed_at WHERE id = {work.id}"
            await raw.execute(store, sql)
            rescued = await store.rescue_jobs(10)
            assert (rescued.workers, rescued.requeued) == (1, (handle.number,))
            release.set()
            await until(lambda: work.refused == 1, "its end was refused")
            job = await ended(handle)
        assert (job.result, job.claim, job.crashes) == ("claim 2", 2, 1)


@pytest.mark.usefixtures("brisk")
async def test_a_claim_that_was_taken_away_stops_only_its_handler(app: Holdfast) -> None:
    events: list[str] = []
    release = asyncio.Event()

    @app.task
    async def wait_for_it(ctx: Context, name: str) -> str:
        if ctx.job.claim == 1:
            try:
                await release.wait()
            except asyncio.CancelledError:
                events.append(f"stopped {name}")
                raise
        return name

    handles = [await wait_for_it.enqueue("a"), await wait_for_it.enqueue("b")]
    store: Any = app.store
    async with working(app) as work:
        await until(lambda: work.running == 2, "both run")
        assert handles[0].number is not None
        await store.finish_jobs([crashed(handles[0].number, 1, FAILURE)])
        await until(lambda: bool(events), "it is stopped")
        release.set()
        jobs = [await ended(handle) for handle in handles]
    assert events == ["stopped a"]
    assert [(job.result, job.claim) for job in jobs] == [("a", 2), ("b", 1)]


@pytest.mark.usefixtures("brisk")
async def test_a_worker_whose_lease_cannot_be_trusted_gives_everything_back(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers everybody but the renewals: before the lease ends, what runs is stopped."""
    events: list[str] = []
    later = LaterTime()

    @app.task
    async def long_one(ctx: Context) -> str:
        if ctx.job.claim == 1:
            try:
                await asyncio.Event().wait()
            finally:
                events.append("stopped")
        return "again"

    leases = LeaseFaults(app)
    handle = await long_one.enqueue()
    async with working(app) as work:
        await until(lambda: work.running == 1, "it runs")
        leases.is_away = True
        monkeypatch.setattr("holdfast.worker.lease.time", later)
        later.ahead_s = 9.0  # of the ten that the lease lasts
        await until(lambda: bool(events), "the handler was stopped")
        job = await until_state(handle, JobState.QUEUED)
        assert (job.attempt, job.crashes) == (0, 0)
        await work.moments.next("promoted", times=2)  # it looks, and claims nothing
        assert (await handle.get()).claim == 1
        leases.is_away = False
        job = await ended(handle)
    assert (job.result, job.attempt, job.claim) == ("again", 1, 2)


# ---- strange claims --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brisk")
async def test_a_claim_that_the_worker_does_not_know_of_is_given_back(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.worker.custody._STRANGE_MS", 50)

    @app.task(queue="elsewhere")
    async def strange() -> None: ...

    @app.task
    async def known() -> None: ...

    store: Any = app.store
    async with working(app, queues=["default"]) as work:
        handle = await strange.enqueue()
        lanes = (Lane("elsewhere", 5, 1),)
        assert len(await store.claim_jobs(Claim(work.id, 999_999, 1, lanes))) == 1
        with caplog.at_level(logging.WARNING):
            job = await until_state(handle, JobState.QUEUED)
    assert (job.attempt, job.claim) == (0, 1)
    assert "is not known here and is requeued" in caplog.text


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("strange_ms", [-1, 3_600_000], ids=["its reply is on its way", "it is young"])
async def test_a_claim_that_the_worker_may_hear_of_yet_is_not_given_back(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch, strange_ms: int
) -> None:
    monkeypatch.setattr("holdfast.worker.custody._STRANGE_MS", strange_ms)
    store: Any = memory_app.store
    claim, answered, go_on = store.claim_jobs, asyncio.Event(), asyncio.Event()

    async def claim_slowly(asked: Claim) -> list[Job]:
        found: list[Job] = await claim(asked)
        if found:
            answered.set()
            await go_on.wait()
        return found

    @memory_app.task
    async def work() -> str:
        return "mine"

    store.claim_jobs = claim_slowly
    handle = await work.enqueue()
    async with working(memory_app) as work_:
        await answered.wait()
        await work_.moments.next("renewed", times=3)  # each of them shows the claim
        assert (await handle.get()).state is JobState.RUNNING
        go_on.set()
        job = await ended(handle)
    assert (job.result, job.attempt, job.claim) == ("mine", 1, 1)


# ---- crashes ---------------------------------------------------------------------------------------------------------


async def test_a_job_that_crashed_once_runs_with_nothing_beside_it(app: Holdfast, moments: Moments) -> None:
    running: list[str] = []
    beside: list[list[str]] = []

    @app.task
    async def work(ctx: Context, name: str) -> None:
        running.append(name)
        if name == "suspect":
            beside.append(list(running))
            await moments.next("promoted", times=2)  # the worker has looked for more
            beside.append(list(running))
        await asyncio.sleep(0)
        running.remove(name)

    store: Any = app.store
    suspect = await work.using(priority=3).enqueue("suspect")
    async with working(app, concurrency=1, queues=["nothing"]) as other:
        (job,) = await store.claim_jobs(Claim(other.id, 1_000, 1, (Lane("default", 3, 1),)))
        await store.finish_jobs([crashed(job.id, job.claim, FAILURE)])
    handles = [await work.enqueue(f"{number}") for number in range(20)]
    async with working(app, concurrency=4):
        jobs = [await ended(handle) for handle in (suspect, *handles)]
    assert (jobs[0].crashes, jobs[0].claim) == (1, 2)
    assert beside == [["suspect"], ["suspect"]]


async def test_nobody_waits_behind_a_crashed_job_that_waits_for_solitude(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long jobs may keep it from being alone for hours; what was claimed with it is handed to others, once."""
    monkeypatch.setattr("holdfast.worker.worker._LONGEST_BUFFERED_S", 0.0)
    monkeypatch.setattr(starting, "PATIENCE_S", 0.0)
    release = asyncio.Event()

    @app.task(queue="other")
    async def long_one() -> None:
        await release.wait()

    @app.task
    async def work() -> None: ...

    store: Any = app.store
    suspect = await work.using(priority=1).enqueue()
    async with working(app, queues=["nothing"]) as other:
        (job,) = await store.claim_jobs(Claim(other.id, 1_000, 1, (Lane("default", 1, 1),)))
        await store.finish_jobs([crashed(job.id, job.claim, FAILURE)])
    await app.queues.pause("default")
    running = await long_one.enqueue()
    innocent = [await work.enqueue() for _ in range(3)]
    async with working(app, concurrency=5, queues=["other", "default"]) as busy:
        await busy.moments.wait("begun", job=running.number)
        await app.queues.resume("default")
        for handle in (suspect, *innocent):
            await busy.moments.wait("claimed", worker=busy.id, jobs=handle.number)
        async with working(app, concurrency=1):
            jobs = [await ended(handle) for handle in innocent]
            assert (await suspect.get()).state is JobState.RUNNING
            await until(lambda: busy.buffered == [suspect.number], "the worker has handed back all others")
        release.set()
        job = await ended(suspect)
    assert {(found.state, found.attempt, found.claim) for found in jobs} == {(JobState.COMPLETED, 1, 2)}
    assert (job.claim, job.crashes) == (2, 1)


async def test_the_neighbours_of_a_crashed_job_run_after_it(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work() -> None: ...

    store: Any = memory_app.store
    handles = [await work.enqueue() for _ in range(5)]
    async with working(memory_app, queues=["nothing"]) as other:
        jobs = await store.claim_jobs(Claim(other.id, 1_000, 5, (Lane("default", 5, 5),)))
        await store.finish_jobs([crashed(job.id, job.claim, FAILURE) for job in jobs])
    await drained(memory_app)
    found = await ran(memory_app, *handles)
    assert {(job.state, job.crashes) for job in found} == {(JobState.COMPLETED, 1)}


# ---- asked to leave --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brisk")
async def test_an_embedded_worker_that_is_asked_to_leave_ends_what_it_runs(app: Holdfast) -> None:
    has_begun, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def long_one() -> str:
        has_begun.set()
        await release.wait()
        return "mine"

    handle = await long_one.enqueue()
    async with working(app) as work:
        await has_begun.wait()
        (row,) = await app.workers.drain(work.id, actor="alice")
        assert row.drain_by == "alice"
        await work.moments.wait("drain_begun", worker=work.id)
        later = await long_one.enqueue()
        release.set()
        async with asyncio.timeout(PATIENCE_S):
            await work.task
    assert (await handle.get()).state is JobState.COMPLETED
    assert (await later.get()).state is JobState.QUEUED
