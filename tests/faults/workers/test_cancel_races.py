"""Cancellations at random moments: each life of a job ends once, is told once, and a cancelled job never runs again."""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast import Context, Fatal, Holdfast, JobState, Retry, Snooze, WrongState
from holdfast.events import TERMINAL_EVENTS, EventType
from holdfast.job import RETRYABLE, WAITING, Answer, JobRow
from holdfast.public_id import decode
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from holdfast.stores.values import Claim, Lane, WorkerProcess
from holdfast.transitions import crashed
from tests.support.connections import FAILURE, connected, replace_function
from tests.support.figures import show
from tests.support.oracle import all_ended
from tests.support.pace import lasts
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import BRISK, working

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

JOBS = size(200, 2_000)
WITHIN_S = size(1, 6)  # the moments of the cancellations
PATIENCE_S = size(40, 100)
ENDS = {
    JobState.COMPLETED: EventType.COMPLETED,
    JobState.FAILED: EventType.FAILED,
    JobState.CANCELLED: EventType.CANCELLED,
}


class Run(msgspec.Struct):
    """One run of a handler."""

    job: int
    claim: int
    began: float


class Fray:
    """Jobs that end in every way, those who cancel them, and what was heard and seen of it."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.chance = chance
        self.app = Holdfast(place.url, schema=place.schema, worker=BRISK)
        self.store: Any = place.store
        self.runs: list[Run] = []
        self.told: dict[int, list[Event]] = defaultdict(list)
        self.acknowledged: dict[int, tuple[float, JobState, Job]] = {}
        self.answers: Counter[str] = Counter()

        @self.app.task(max_attempts=50)
        async def work(ctx: Context) -> None:
            await self._work(ctx)

        self.work = work

    async def _work(self, ctx: Context) -> None:
        self.runs.append(Run(ctx.job.number, ctx.job.claim, time.monotonic()))
        await lasts(self.chance.uniform(0, 0.03))
        how = self.chance.choice(["complete", "fail", "retry", "retry", "snooze", "snooze"])
        if how == "fail":
            raise Fatal(how)
        if how == "retry":
            raise Retry(0.001)
        if how == "snooze":
            raise Snooze(0.001)

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[None]:
        """Listen beside the block."""

        def hear(event: Event) -> None:
            self.told[decode(event.id or "")].append(event)

        async with self.app.subscribe(hear, types=[EventType.ENQUEUED, EventType.STARTED, *TERMINAL_EVENTS]):
            yield

    async def cancel(self, job_id: int) -> None:
        """Cancel a job, at some moment."""
        await lasts(self.chance.uniform(0, WITHIN_S))
        try:
            (answer,) = await self.app.jobs.cancel_many([job_id])
            state = answer.state_after()
        except WrongState:
            self.answers["too late"] += 1
        else:
            at = time.monotonic()
            self.acknowledged[job_id] = (at, state, await self.app.jobs.get(job_id))
            self.answers[state] += 1

    async def lose_workers(self, over: asyncio.Event) -> None:
        """Take jobs as a worker that dies again and again, and have them given back by whoever finds it dead."""
        while not over.is_set():
            worker = await self.store.register_worker(WorkerProcess("doomed", "elsewhere", 1), 60_000)
            taken: list[JobRow] = await self.store.claim_jobs(Claim(worker, 1, 5, (Lane("default", 5, 5),)))
            await lasts(self.chance.uniform(0, 0.04))
            ends = [crashed(job.id, job.claim, FAILURE) for job in taken if not job.crashes]
            rescued = await self.store.release_worker(worker, ends)
            self.answers["rescued"] += len(rescued.requeued)
            self.answers["cancelled by a rescue"] += len(rescued.cancelled)
            await self.store.announce(["default"])

    async def fight(self, ids: Sequence[int]) -> dict[int, JobRow]:
        """Let everything happen to the jobs until all have ended."""
        over = asyncio.Event()
        losing = asyncio.create_task(self.lose_workers(over))
        await asyncio.gather(*(self.cancel(job_id) for job_id in ids))
        over.set()
        await losing
        return await all_ended(self.store, ids, PATIENCE_S)

    async def all_told(self, jobs: dict[int, JobRow]) -> None:
        """Wait until the last end of each job was told."""
        await until(lambda: all(self.ends_of(job, job.life) for job in jobs.values()), "every end was told")

    def ends_of(self, job: JobRow, life: int) -> list[Event]:
        """What was told of the end of a life."""
        return [event for event in self.told[job.id] if event.type in TERMINAL_EVENTS and event.run == life]

    def faults(self, jobs: dict[int, JobRow]) -> list[str]:
        """Find what must not be."""
        found = [fault for job in jobs.values() for fault in self._untrue(job)]
        for job_id, (at, state, seen) in self.acknowledged.items():
            runs = [run for run in self.runs if run.job == job_id]
            if state is JobState.CANCELLED and any(run.began > at for run in runs):
                found.append(f"job {job_id} ran after it had been cancelled")
            if seen.state in WAITING or any(run.claim > seen.claim for run in runs):
                found.append(f"job {job_id} waited or ran anew after it was to be cancelled")
        return found

    def _untrue(self, job: JobRow) -> list[str]:
        found = []
        events = self.told[job.id]
        if [(event.run, event.claim) for event in events] != sorted((event.run, event.claim) for event in events):
            found.append(f"job {job.id}: its events are out of order")
        for life in range(1, job.life + 1):
            ends = self.ends_of(job, life)
            if len(ends) != 1:
                found.append(f"job {job.id}: life {life} has {len(ends)} ends: {[end.type for end in ends]}")
            elif any(event.run == life for event in events[events.index(ends[0]) + 1 :]):
                found.append(f"job {job.id}: something was told after the end of life {life}")
            elif life == job.life and (ends[0].type, ends[0].state) != (ENDS[job.state], job.state):
                found.append(f"job {job.id} is {job.state}, but {ends[0].type} was told")
        return found


async def fought(fray: Fray) -> list[str]:
    """Let jobs be cancelled in two lives, and say what went wrong."""
    async with fray.app, fray.heard(), working(fray.app, concurrency=8), working(fray.app, concurrency=8):
        handles = await fray.app.enqueue_many(fray.work.call() for _ in range(JOBS))
        ids = [handle.number for handle in handles if handle.number is not None]
        jobs = await fray.fight(ids)
        await fray.all_told(jobs)
        faults = fray.faults(jobs)

        fray.acknowledged.clear()
        fray.runs.clear()
        again = [job.id for job in jobs.values() if job.state in RETRYABLE]
        assert {answer.answer for answer in await fray.app.jobs.retry_many(again)} == {Answer.DONE}
        jobs = await fray.fight(again)
        await fray.all_told(jobs)
    states = Counter(job.state.value for job in jobs.values())
    show(f"{dict(fray.answers)}, {sum(map(len, fray.told.values()))} events, then {dict(states)}")
    return faults + fray.faults(jobs)


@pytest.mark.timeout(240)
async def test_a_cancellation_at_any_moment_ends_each_life_once(place: Place, chance: random.Random) -> None:
    fray = Fray(place, chance)
    assert await fought(fray) == []
    for answer in (JobState.CANCELLED, JobState.RUNNING, "rescued"):
        assert fray.answers[answer], f"no cancellation met {answer}: the fault did not happen"


@pytest.mark.timeout(240)
@pytest.mark.chaos
async def test_a_mark_that_nobody_reads_is_noticed(postgres_place: Place, chance: random.Random) -> None:
    mark = ("WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'", "")
    async with connected(postgres_place.url) as own:
        await replace_function(own, postgres_place.schema, "finish_jobs", mark)
    assert any("after it was to be cancelled" in fault for fault in await fought(Fray(postgres_place, chance)))
