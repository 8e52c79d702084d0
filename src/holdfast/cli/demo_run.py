"""The course of the demo: jobs are stored, a worker runs them, one of its processes is killed, all is checked.

Beside it a server shows all of that. Where a person looks on, it goes on with jobs of all sorts until they leave.
"""

import asyncio
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast import ages
from holdfast.app import Holdfast
from holdfast.cli import demo_processes
from holdfast.cli.demo_processes import WORKER
from holdfast.cli.demo_view import Snapshot, View
from holdfast.demo import app as shop
from holdfast.demo import plan
from holdfast.demo.plan import Planned, Summary
from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.stores import make_store

_LOOK_S = 0.25
_MORE_S = 2.0
_SHOWN = 60  # of the jobs that come later
_LONGEST_S = 55.0
_LEAVE_S = 15.0
_FAR_ENOUGH = 25  # per cent of a long job, before its process is killed
_STYLES = {JobState.FAILED: "red", JobState.SCHEDULED: "yellow", JobState.CANCELLED: "bright_black"}


@dataclass(frozen=True)
class Story:
    """How the demo went."""

    stored: int
    elapsed_s: float
    summary: Summary
    problems: tuple[str, ...]
    beside: tuple[tuple[str, str, str], ...] = ()
    """What there is beside jobs: its name, how much of it, and what it is."""


class Demo:
    """One run of the demo; one that stays goes on after the story, until a person ends it."""

    def __init__(self, url: str, folder: Path, view: View, *, stays: bool = False) -> None:
        self._settings = Holdfast(url, synchronous="normal").config
        self._folder = folder
        self._view = view
        self._began = time.monotonic()
        self._planned: dict[str, Planned] = {}
        self._seen: dict[str, Job] = {}
        self._victims: dict[str, Job] | None = None
        self._stays = stays

    async def run(self) -> Story:
        """Go through it."""
        leaving = asyncio.current_task()
        if leaving is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.cancel)
        async with shop.app.open_on(make_store(self._settings)):
            await self._store_jobs()
            async with (
                demo_processes.server(self._settings.url, self._folder) as server,
                demo_processes.worker(self._settings.url, self._folder) as worker,
            ):
                self._say(f"started: holdfast {' '.join(WORKER)} (process {worker.pid})")
                showing = asyncio.create_task(self._show_address(server))
                await self._follow(worker)
                problems = await showing
                took_s = self._elapsed
                if self._stays and worker.returncode is None:
                    await self._stay(worker, server)
                problems += await self._dismiss(worker)
            beside = await self._beside()
        summary = plan.summarise(self._planned, self._seen)
        if self._victims is None:
            problems.append("no worker process could be killed in the middle of a job")
        elif not summary.rescued:
            problems.append("a worker process was killed, and no job of it was rescued")
        return Story(len(self._planned), took_s, summary, (*summary.problems, *problems), beside)

    # ---- its parts -------------------------------------------------------------------------------------------------

    async def _store_jobs(self) -> None:
        planned = [*plan.jobs(), plan.unwanted()]
        handles = await shop.app.enqueue_many([one.call for one in planned])
        ids = [handle.id for handle in handles]
        self._planned = dict(zip(ids, planned, strict=True))
        self._say(f"stored {len(ids)} jobs; no worker runs yet")
        await shop.app.jobs.cancel(ids[-1], actor="demo", reason="nobody wants it any more")

    async def _show_address(self, server: demo_processes.DemoServer) -> list[str]:
        """Say where the dashboard is, as soon as it is there; the answer is what went wrong."""
        if (why := server.missing) is not None:
            self._say(f"no dashboard: {why}")
            return []
        link = await server.link()
        if link is None:
            return ["the server did not start", *demo_processes.log_of(self._folder, "server")]
        self._say(f"dashboard: {link} (works once)", "bold green")
        return []

    async def _stay(self, worker: asyncio.subprocess.Process, server: demo_processes.DemoServer) -> None:
        """Go on with jobs of all sorts, until a person has seen enough."""
        loop, enough = asyncio.get_running_loop(), asyncio.Event()
        for told in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(told, enough.set)
        self._say("all of that has finished; more jobs come until you press Ctrl-C", "bold")
        if server.address is not None:
            self._say(f"dashboard: {server.address} (the link above lets you in)", "bold green")
        ids: list[str] = []
        for number in itertools.count(1):
            handles = await shop.app.enqueue_many(plan.more(number))
            ids = [*ids, *(handle.id for handle in handles)][-_SHOWN:]
            until = time.monotonic() + _MORE_S
            while time.monotonic() < until:
                self._view.show(Snapshot(self._elapsed, list((await shop.app.jobs.get_many(ids)).values())))
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await enough.wait()
                except TimeoutError:
                    continue
                return
            if worker.returncode is not None:
                return

    async def _follow(self, worker: asyncio.subprocess.Process) -> None:
        """Look until everything has ended, and kill a process on the way."""
        while True:
            await self._look()
            is_over = all(job.is_finished for job in self._seen.values())
            if is_over or worker.returncode is not None or self._elapsed > _LONGEST_S:
                return
            if self._victims is None:
                await self._kill_one()
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> None:
        found = await shop.app.jobs.get_many(list(self._planned))
        for job in found.values():
            what = self._event(self._seen.get(job.id), job)
            if what is not None:
                self._say(f"{job.kind} {job.id} {what}", _STYLES.get(job.state, ""))
        self._seen = found
        self._view.show(Snapshot(self._elapsed, list(found.values())))

    async def _kill_one(self) -> None:
        """Kill the process that has come far with a long job."""
        far = next((job for job in self._seen.values() if _is_far(job)), None)
        rows = {} if far is None else {str(row.id): row for row in await shop.app.store.list_workers()}
        row = None if far is None or far.worker is None else rows.get(far.worker)
        if row is None or row.dead_at is not None:
            return
        held = (job for job in self._seen.values() if job.state is JobState.RUNNING and job.worker == str(row.id))
        self._victims = {job.id: job for job in held}
        os.kill(row.info.pid, signal.SIGKILL)
        self._say(f"kill -9 {row.info.pid}: worker {row.id}, which held {len(self._victims)} jobs", "bold red")

    async def _dismiss(self, worker: asyncio.subprocess.Process) -> list[str]:
        """Let the worker leave as a deployment would; the answer is what went wrong."""
        if worker.returncode is None:
            self._say("SIGTERM: the worker may leave")
            worker.terminate()
        try:
            async with asyncio.timeout(_LEAVE_S):
                code = await worker.wait()
        except TimeoutError:
            return [
                f"the worker had not left {_LEAVE_S:g} s after SIGTERM",
                *demo_processes.log_of(self._folder, "worker"),
            ]
        return (
            []
            if code == 0
            else [f"the worker left with exit code {code}", *demo_processes.log_of(self._folder, "worker")]
        )

    async def _beside(self) -> tuple[tuple[str, str, str], ...]:
        fires = await shop.app.schedules.fires("count_stock", limit=1_000)
        escalations = (await shop.app.escalations.list()).escalations
        (budget,) = await shop.app.budgets.list()
        return (
            ("fired", str(len(fires)), "came by a schedule, every five seconds"),
            ("escalated", str(len(escalations)), "failures, of which the policy ops writes a digest at 08:00"),
            ("spent", f"{100 * budget.share:.0f} %", "of the budget ai, in ten photos"),
        )

    # ---- what is told ----------------------------------------------------------------------------------------------

    def _event(self, before: Job | None, job: Job) -> str | None:
        """Say what happened to a job since the last look, if a person would want to know."""
        victim = None if self._victims is None else self._victims.get(job.id)
        if victim is not None and job.claim > victim.claim and before is not None and before.claim == victim.claim:
            return f"was rescued: claim {job.claim} of it, by worker {job.worker}"
        if job.kind in plan.QUIET or (before is not None and _key(before) == _key(job)):
            return None
        if job.state is JobState.SCHEDULED:
            return _postponed(job) if job.claim else None
        if job.is_finished:
            return _ending(job)
        return None

    def _say(self, text: str, style: str = "") -> None:
        self._view.say(self._elapsed, text, style)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def _is_far(job: Job) -> bool:
    if job.kind != plan.KILLED_IN or job.state is not JobState.RUNNING or job.progress is None:
        return False
    return (job.progress.percent or 0) >= _FAR_ENOUGH


def _key(job: Job) -> tuple[JobState, int, int]:
    return job.state, job.attempt, job.claim


def _postponed(job: Job) -> str:
    delay = ages.span(job.run_at - ages.now())
    if job.attempts and job.attempts[-1].outcome == "snooze":
        return f"snoozed, due in {delay}: {job.error}"
    return f"attempt {job.attempt} failed, next in {delay}: {job.error}"


def _ending(job: Job) -> str:
    if job.error_class is not None:
        return f"{job.state}: {job.error_class}: {job.error}"
    attempts = f" on attempt {job.attempt}" if job.attempt > 1 else ""
    return f"{job.state}{attempts}"
