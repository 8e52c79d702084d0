"""The store is away, or its replies are: what was done is kept and sent, what was claimed is known or given back."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Context, Fatal, Holdfast, JobState
from holdfast.errors import DataRefused
from holdfast.transitions import Transition
from tests.support.proxy import Fault, Proxy, proxied
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import BRISK, MakeApp, drained, ended, working
from tests.worker.faults import Faults


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Give a proxy in front of the server."""
    async with proxied(dsn) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, empty_schema: str) -> AsyncIterator[Holdfast]:
    """Give an open app that reaches its store through the proxy."""
    async with Holdfast(proxy.dsn, schema=empty_schema, deadline="2s", worker=BRISK) as app:
        yield app
        proxy.heal()


# ---- away ------------------------------------------------------------------------------------------------------------


async def test_what_was_finished_while_the_store_was_away_is_sent_later(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    release, ran = asyncio.Event(), []

    @app.task
    async def work(number: int) -> int:
        ran.append(number)
        await release.wait()
        return number

    @app.task
    async def later() -> str:
        return "later"

    faults = Faults(app)
    handles = [await work.enqueue(number) for number in range(5)]
    with caplog.at_level(logging.INFO, "holdfast"):
        async with working(app, concurrency=5) as work_:
            await until(lambda: work_.running == 5, "all run")
            waiting = await later.enqueue()
            claims = faults.calls["claim_jobs"]
            faults.is_away = True
            release.set()
            await until(lambda: work_.running == 0, "all have ended")
            before = faults.calls["finish_jobs"]
            await until(lambda: faults.calls["finish_jobs"] >= before + 3, "the worker keeps trying")
            assert faults.calls["claim_jobs"] - claims <= 1  # nothing more is claimed meanwhile
            assert {(await handle.get()).state for handle in handles} == {JobState.RUNNING}
            assert (await waiting.get()).claim == 0
            faults.is_away = False
            assert [(await ended(handle)).result for handle in handles] == list(range(5))
            assert (await ended(waiting)).result == "later"
    assert sorted(ran) == list(range(5))
    assert {(await handle.get()).claim for handle in handles} == {1}
    told = [record.message for record in caplog.records if "available" in record.message]
    assert len(told) == 2  # once when it went away, once when it came back


async def test_a_worker_that_leaves_while_the_store_is_away_does_not_hang_and_says_so(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    async with make_app(worker=dataclasses.replace(BRISK, shutdown_grace="300ms")) as app:

        @app.task
        async def work() -> None:
            await release.wait()

        faults = Faults(app)
        handle = await work.enqueue()
        async with working(app) as work_:
            await until(lambda: work_.running == 1, "it runs")
            faults.is_away = True
            release.set()
            await work_.stopped()
        assert "the store was not available" in caplog.text
        # Signing off gave it back: that goes by another way, which was open.
        assert (await handle.get()).attempt == 0


@pytest.mark.usefixtures("brisk")
@pytest.mark.guards("flush-before-leaving")
async def test_the_end_that_is_on_its_way_when_the_worker_is_told_to_leave_is_waited_for(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def work() -> None:
        await release.wait()

    handle = await work.enqueue()
    async with working(app) as work_:
        await until(lambda: work_.running == 1, "it runs")
        faults = Faults(app, "finish_jobs")
        faults.gate.clear()
        release.set()
        await until(lambda: faults.waiting == 1, "its end is on its way")
        work_.drain()
        await work_.moments.next("renewed", times=3)  # it is still there
        faults.gate.set()
        await work_.stopped()
    job = await handle.get()
    assert (job.state, job.attempt) == (JobState.COMPLETED, 1)


# ---- replies that are lost -------------------------------------------------------------------------------------------


@pytest.mark.guards("doubtful-claim")
async def test_a_lost_claim_reply_strands_nothing(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: the process lives and its lease is renewed, so nobody else would ever look at what it claimed."""
    monkeypatch.setattr("holdfast.worker.custody._STRANGE_MS", 3_600_000)  # no renewal finds it out first

    @app.task
    async def work(number: int) -> int:
        return number

    jobs = size(20, 500)
    handles = await app.enqueue_many(work.call(number) for number in range(jobs))
    faults = Faults(app)
    faults.cut_reply("claim_jobs", 2)
    async with working(app, concurrency=4):
        found = [await ended(handle) for handle in handles]
    assert [job.result for job in found] == list(range(jobs))
    assert {job.attempt for job in found} == {1}


@pytest.mark.guards("repeated-finish")
async def test_a_lost_finish_reply_is_success_and_no_zombie(app: Holdfast) -> None:
    """B12, with the next claim in the same call: the ends are sent again, the claim is given back."""
    ran: list[int] = []

    @app.task
    async def work(number: int) -> int:
        ran.append(number)
        return number

    jobs = size(20, 500)
    handles = await app.enqueue_many(work.call(number) for number in range(jobs))
    faults = Faults(app)
    async with working(app, concurrency=2) as work_:
        faults.cut_reply("finish_jobs", 3)
        found = [await ended(handle) for handle in handles]
    assert work_.refused == 0
    assert [(job.result, job.attempt) for job in found] == [(number, 1) for number in range(jobs)]
    assert sorted(ran) == list(range(jobs))


@pytest.mark.guards("report-before-end")
async def test_what_a_handler_said_last_is_stored_before_the_end_of_its_job(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        await ctx.progress(40, "on the way")
        await release.wait()
        message = "no further"
        raise Fatal(message)

    faults = Faults(app, "save_progress")
    faults.gate.clear()
    handle = await work.enqueue()
    async with working(app) as work_:
        await until(lambda: faults.waiting == 1, "what it said is on its way")
        release.set()
        await work_.moments.wait("ended", job=handle.number)
        await work_.moments.next("promoted", times=2)  # in which the end could have overtaken it
        faults.gate.set()
        job = await ended(handle)
    assert job.state is JobState.FAILED
    assert job.progress is not None
    assert (job.progress.percent, job.progress.message) == (40, "on the way")


async def test_lost_replies_of_starts_and_progress_are_asked_again(app: Holdfast) -> None:
    release = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        await ctx.progress(40, "on the way")
        await release.wait()

    faults = Faults(app)
    faults.cut_reply("start_jobs", 2)
    faults.cut_reply("save_progress", 2)
    handle = await work.enqueue()
    async with working(app):

        async def stored() -> bool:
            job = await handle.get()
            return job.progress is not None and job.started_at is not None and faults.calls["save_progress"] >= 3

        await until(stored, "both are stored")
        release.set()
        assert (await ended(handle)).state is JobState.COMPLETED


@pytest.mark.real_time  # links that break
@pytest.mark.parametrize("marker", [".claim_jobs(", ".finish_jobs(", ".exchange_jobs("])
@pytest.mark.parametrize("fault", [Fault.CUT_REPLY, Fault.CUT_BEFORE, Fault.CUT_WITHIN_REPLY])
async def test_links_that_are_cut_cost_nothing(far: Holdfast, proxy: Proxy, fault: Fault, marker: str) -> None:
    ran: list[int] = []

    @far.task
    async def work(number: int) -> int:
        ran.append(number)
        return number

    jobs = size(30, 1_000)
    handles = await far.enqueue_many(work.call(number) for number in range(jobs))
    proxy.arm(fault, marker, times=2)
    async with working(far, concurrency=3) as work_:
        found = [await ended(handle) for handle in handles]
        proxy.disarm()
    assert work_.refused == 0
    assert [(job.result, job.attempt) for job in found] == [(number, 1) for number in range(jobs)]
    assert sorted(ran) == list(range(jobs))


@pytest.mark.real_time  # links that break
async def test_every_link_is_reset_again_and_again(far: Holdfast, proxy: Proxy) -> None:
    ran: list[int] = []

    @far.task
    async def work(number: int) -> int:
        await until(lambda: resets >= number * rounds // jobs, "it is the turn of this job")
        ran.append(number)
        return number

    jobs, rounds, resets = size(60, 2_000), size(5, 50), 0
    handles = await far.enqueue_many(work.call(number) for number in range(jobs))
    async with working(far, concurrency=4):
        while resets < rounds:
            await until(lambda: len(ran) > jobs // rounds * resets + 3, "work goes on")  # noqa: B023 - asked at once
            await proxy.cut_all()
            resets += 1
        found = [await ended(handle) for handle in handles]
    assert [job.result for job in found] == list(range(jobs))
    assert {job.attempt for job in found} == {1}


# ---- values that are refused -----------------------------------------------------------------------------------------


async def test_one_value_that_the_store_refuses_fails_alone(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is known that the worker lets pass and a database refuses, so it is told which one to refuse."""
    store: Any = app.store
    finish = store.finish_jobs
    release, batches = asyncio.Event(), []

    async def refuse(transitions: list[Transition], **kwargs: Any) -> Any:
        batches.append(len(transitions))
        if any(transition.result == '"poison"' for transition in transitions):
            message = "no such value"
            raise DataRefused(message)
        return await finish(transitions, **kwargs)

    monkeypatch.setattr(store, "finish_jobs", refuse)

    @app.task
    async def work(what: str) -> str:
        await release.wait()
        return what

    handles = [await work.enqueue("poison" if number == 5 else f"{number}") for number in range(16)]
    async with working(app, concurrency=16) as work_:
        await until(lambda: work_.running == 16, "all run")
        release.set()
        jobs = [await ended(handle) for handle in handles]
    assert [job.state for job in jobs] == [JobState.FAILED if n == 5 else JobState.COMPLETED for n in range(16)]
    assert (jobs[5].error_class, jobs[5].error, jobs[5].attempt) == ("holdfast.errors.DataRefused", "no such value", 1)
    assert max(batches) > 1
    assert 1 in batches


@pytest.mark.usefixtures("brisk")
async def test_an_end_that_is_on_its_way_is_not_taken_for_a_strange_claim(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal shows a claim whose end is in flight; if that has to be sent again, it is the same end."""
    monkeypatch.setattr("holdfast.worker.custody._STRANGE_MS", -1)
    release = asyncio.Event()

    @memory_app.task
    async def work() -> str:
        await release.wait()
        return "done once"

    handle = await work.enqueue()
    async with working(memory_app) as work_:
        await until(lambda: work_.running == 1, "it runs")
        faults = Faults(memory_app, "finish_jobs")
        faults.gate.clear()
        release.set()
        await until(lambda: faults.waiting == 1, "its end is on its way")
        await work_.moments.next("renewed", times=3)  # each of them shows the claim
        faults.is_away = True
        faults.gate.set()
        await until(lambda: faults.calls["finish_jobs"] > 1, "it is sent again")
        faults.is_away = False
        now = await ended(handle)
    assert (now.state, now.result, now.claim) == (JobState.COMPLETED, "done once", 1)


async def test_nothing_is_left_of_a_drained_worker(app: Holdfast) -> None:
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    await drained(app)
    store: Any = app.store
    assert await store.list_workers() == []
