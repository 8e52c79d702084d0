"""The course of the demo: jobs are stored, a worker runs them, one of its processes is killed, all is checked."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.app import Holdfast
from holdfast.cli import ages
from holdfast.cli.demo_view import Snapshot, View
from holdfast.demo import app as shop
from holdfast.demo import plan
from holdfast.demo.plan import Planned, Summary
from holdfast.job import Job, JobState
from holdfast.stores import make_store

_WORKER = ("worker", "-A", "holdfast.demo.app:app", "--processes", "2", "--concurrency", "8")
_LOG = "worker.log"
_LOG_LINES = 10
_LOOK_S = 0.25
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


class Demo:
    """One run of the demo."""

    def __init__(self, url: str, folder: Path, view: View) -> None:
        self._settings = Holdfast(url, synchronous="normal").settings
        self._folder = folder
        self._view = view
        self._began = time.monotonic()
        self._planned: dict[int, Planned] = {}
        self._seen: dict[int, Job] = {}
        self._victims: dict[int, Job] | None = None

    async def run(self) -> Story:
        """Go through it."""
        leaving = asyncio.current_task()
        if leaving is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.cancel)
        async with shop.app.open_on(make_store(self._settings)):
            await self._store_jobs()
            async with _worker(self._settings.url, self._folder) as worker:
                self._say(f"started: holdfast {' '.join(_WORKER)} (process {worker.pid})")
                await self._follow(worker)
                problems = await self._dismiss(worker)
        summary = plan.summarise(self._planned, self._seen)
        if self._victims is None:
            problems.append("no worker process could be killed in the middle of a job")
        elif not summary.rescued:
            problems.append("a worker process was killed, and no job of it was rescued")
        return Story(len(self._planned), self._elapsed, summary, (*summary.problems, *problems))

    # ---- its parts -------------------------------------------------------------------------------------------------

    async def _store_jobs(self) -> None:
        planned = [*plan.jobs(), plan.unwanted()]
        handles = await shop.app.enqueue_many([one.call for one in planned])
        ids = [handle.id for handle in handles if handle.id is not None]
        self._planned = dict(zip(ids, planned, strict=True))
        self._say(f"stored {len(ids)} jobs; no worker runs yet")
        await shop.app.cancel(ids[-1], actor="demo", reason="nobody wants it any more")

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
        found = await shop.app.get_many(list(self._planned))
        for job in found.values():
            what = self._event(self._seen.get(job.id), job)
            if what is not None:
                self._say(f"{job.kind} {job.public_id} {what}", _STYLES.get(job.state, ""))
        self._seen = found
        self._view.show(Snapshot(self._elapsed, list(found.values())))

    async def _kill_one(self) -> None:
        """Kill the process that has come far with a long job."""
        far = next((job for job in self._seen.values() if _is_far(job)), None)
        rows = {} if far is None else {row.id: row for row in await shop.app.store.list_workers()}
        row = None if far is None or far.worker is None else rows.get(far.worker)
        if row is None or row.dead_at is not None:
            return
        held = (job for job in self._seen.values() if job.state is JobState.RUNNING and job.worker == row.id)
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
            return [f"the worker had not left {_LEAVE_S:g} s after SIGTERM", *_log_of(self._folder)]
        return [] if code == 0 else [f"the worker left with exit code {code}", *_log_of(self._folder)]

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
    if job.error_class is None:
        return f"snoozed, due in {delay}"
    return f"attempt {job.attempt} failed, next in {delay}: {job.error}"


def _ending(job: Job) -> str:
    if job.error_class is not None:
        return f"{job.state}: {job.error_class}: {job.error}"
    attempts = f" on attempt {job.attempt}" if job.attempt > 1 else ""
    return f"{job.state}{attempts}"


# ---- the worker ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _worker(url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `holdfast worker` as a process of its own, away from the terminal; it is gone when this block is left."""
    with (folder / _LOG).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast.cli.demo_worker", str(os.getpid()), *_WORKER),
            cwd=folder,
            env={**os.environ, shop.STORE: url},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()  # its own processes end with it
            await process.wait()


def _log_of(folder: Path) -> list[str]:
    lines = (folder / _LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"the worker said: {line}" for line in lines[-_LOG_LINES:]]
