"""The course of a run: rounds that measure everything once, each in an empty store and checked at its end."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.bench import crew, ledger, measures
from holdfast.bench.app import app
from holdfast.bench.audit import require_exactly_once
from holdfast.bench.crew import Crew
from holdfast.bench.figure import percentile
from holdfast.bench.measures import Jobs
from holdfast.bench.place import Place
from holdfast.bench.plan import Part, Plan, Step
from holdfast.bench.report import PERCENTILES, Progress, Report, figures_of
from holdfast.bench.setup import Setup
from holdfast.config import Settings
from holdfast.stores import make_store


class Course:
    """One run."""

    def __init__(
        self, plan: Plan, place: Place, folder: Path, command: Sequence[str], tell: Callable[[Progress], None]
    ) -> None:
        self._plan = plan
        self._place = place
        self._folder = folder
        self._command = command
        self._tell = tell
        self._round = 0
        self._done = 0
        self._jobs = 0
        self._figures = {figure.name: figure for figure in figures_of(plan)}

    async def run(self) -> Report:
        """Go through all rounds."""
        load, *_ = os.getloadavg()
        await self._place.open()
        for number in range(1, self._plan.rounds + 1):
            self._round = number
            settings = await self._place.fresh()
            if Part.INSERT in self._plan.parts:
                self._begin(Step.INSERT)
                self._add("insert", await self._place.insert(self._plan.one_by_one))
            if self._plan.needs_jobs:
                await self._run_jobs(settings)
        return Report(await self._place.facts(), list(self._figures.values()), self._jobs, load)

    async def _run_jobs(self, settings: Settings) -> None:
        plan, jobs = self._plan, Jobs(self._folder / f"ledger-{self._round}")
        setup = Setup(
            url=settings.url,
            schema=settings.schema,
            synchronous=settings.synchronous,
            pool_size=settings.pool_size,
            ledger=str(jobs.ledger),
        )
        start = crew.Start(self._command, self._folder, setup, plan.concurrency)
        async with app.open_on(make_store(settings)):
            await self._enqueue(jobs)
            self._begin(Step.START)
            async with crew.started(start, 1) as one:
                await measures.warm_up(jobs, one, plan.warm_up)
                await self._measure_one(jobs, one)
                await one.leave()
            if plan.drains_twice:
                self._begin(Step.START_SEVERAL)
                async with crew.started(start, plan.processes) as several:
                    await measures.warm_up(jobs, several, plan.warm_up)
                    self._begin(Step.DRAIN_SEVERAL)
                    await measures.fill(jobs, plan.jobs)
                    self._add("drain_several", await measures.drain(jobs, several, plan.jobs))
                    await several.leave()
        require_exactly_once(jobs.enqueued, (number for number, _ in ledger.read(jobs.ledger)))
        self._jobs += jobs.enqueued

    async def _enqueue(self, jobs: Jobs) -> None:
        """Enqueue with a commit for each, or for a few; no worker runs yet."""
        if Part.ENQUEUE in self._plan.parts:
            self._begin(Step.ONE_BY_ONE)
            self._add("enqueue_one_by_one", await measures.enqueue_one_by_one(jobs, self._plan.one_by_one))
            self._begin(Step.AT_ONCE)
            self._add("enqueue_at_once", await measures.enqueue_at_once(jobs, self._plan.at_once))

    async def _measure_one(self, jobs: Jobs, one: Crew) -> None:
        """Measure what takes a worker with one process."""
        plan = self._plan
        if plan.fills:
            self._begin(Step.BULK)
            self._add("enqueue_in_bulk", await measures.fill(jobs, plan.jobs))
            self._begin(Step.DRAIN_ONE)
            self._add("drain_one", await measures.drain(jobs, one, plan.jobs))
            self._add("memory", await measures.memory(one))
        if Part.IDLE in plan.parts:
            self._begin(Step.IDLE)
            self._add("idle", await measures.idle(one, plan.idle_s))
        if Part.PICKUP in plan.parts:
            self._begin(Step.PICKUP)
            waits = await measures.pick_up(jobs, one, plan.picked_up)
            for per_cent in PERCENTILES:
                self._add(f"pickup_p{per_cent}", percentile(waits, per_cent))

    def _begin(self, step: Step) -> None:
        self._tell(Progress(self._round, self._done, self._plan.rounds * len(self._plan.steps), step))
        self._done += 1

    def _add(self, name: str, value: float) -> None:
        if name in self._figures:  # or nobody has asked for it
            self._figures[name].rounds.append(value)
