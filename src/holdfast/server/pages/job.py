"""The page of one job: its way through time, what it was given and gave, and what can be done with it."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import Form, Request
from starlette.responses import Response

from holdfast.errors import Conflict, InvalidValue, JobNotFound, UniqueConflict
from holdfast.filtering import Term
from holdfast.job import RETRYABLE, WAITING, JobState
from holdfast.public_id import encode
from holdfast.resources.job import Attempt, ItemSet, Job
from holdfast.resources.job_parts import JobItem, LogLine
from holdfast.server.pages import edited
from holdfast.server.pages.relations import offspring, relations
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.pages.shown import Shown, is_tree, written
from holdfast.server.pages.traces import Part, folded
from holdfast.server.pages.waterfall import waterfall
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("pages", in_schema=False)

_MOST_LINES = 500
_MOST_ITEMS = 20


@dataclass(frozen=True)
class Try:
    """One ended attempt, with its error."""

    attempt: Attempt
    error: str | None
    trace: list[Part]
    text: str


@dataclass(frozen=True)
class Json:
    """A JSON value: as a tree where it is small, and as text."""

    title: str
    value: Any
    text: str
    is_tree: bool


@dataclass(frozen=True)
class Items:
    """How far a set of items is, and some of those that failed."""

    name: str
    counts: ItemSet
    failed: Sequence[JobItem]

    @property
    def ended(self) -> int:
        """How many have finished."""
        return self.counts.completed + self.counts.skipped + self.counts.failed


@routes.get("/jobs/{job}", Permission.LOOK)
async def job_page(request: Request, job: str, client: Seen) -> Response:
    """Show one job."""
    found = await client.jobs.get(job)
    seen = Shown(found)
    return page(
        request,
        "job.html",
        at="jobs",
        live=f"job:{found.id}",
        job=found,
        seen=seen,
        why=(await client.jobs.why(found.id)).sentence,
        flow=waterfall(found, datetime.now(UTC)),
        tries=[_try(attempt) for attempt in reversed(found.attempts)],
        last=_last(seen),
        sets=await _sets(client, found),
        values=_values(found),
        lines=_lines(found, await client.jobs.logs(found.id)),
        events=await client.jobs.events(found.id),
        holds=await _holds(client, found),
        relations=await relations(client, found),
        offspring=await offspring(client, found),
        tags=[(name, value, Term("tag", (value,), (name,)).text()) for name, value in found.tags.items()],
        may_retry=found.state in RETRYABLE,
        may_cancel=not found.is_finished and found.cancel_requested_at is None,
        may_run=found.state in WAITING,
        command=f"holdfast jobs show {found.id}",
    )


@routes.post("/jobs/{job}/cancel", Permission.CANCEL_JOBS)
async def cancel_job_here(request: Request, job: str, client: Seen, reason: str = Form("", max_length=500)) -> Response:
    """Cancel a job."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue, reason=reason or None)
    # Only who was in line goes back there: what was due later would run at once.
    undo = ("jobs", found.id, "retry") if found.state is JobState.QUEUED else ()
    deed = client.jobs.cancel(found.id, reason=reason or None)
    return await _done(request, found, deed, Said("Cancelled.", undo=undo))


@routes.post("/jobs/{job}/retry", Permission.RETRY_JOBS)
async def retry_job_here(
    request: Request, job: str, client: Seen, from_phase: str = Form("", max_length=200)
) -> Response:
    """Give a job a new life."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue, from_phase=from_phase or None)
    deed = client.jobs.retry(found.id, from_phase=from_phase or None)
    return await _done(request, found, deed, Said("It is in line again."))


@routes.post("/jobs/{job}/run", Permission.RESCHEDULE_JOBS)
async def run_job_here(request: Request, job: str, client: Seen) -> Response:
    """Let a waiting job be due now."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue)
    return await _done(request, found, client.jobs.reschedule(found.id, delay="0s"), Said("It is due now."))


@routes.post("/jobs/{job}/delete", Permission.DELETE_JOBS)
async def delete_job_here(request: Request, job: str, client: Seen) -> Response:
    """Delete a finished job."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue)
    try:
        await client.jobs.delete(found.id)
    except (InvalidValue, Conflict) as error:
        return turned(request, url(request, "jobs", found.id), Said(f"Not done: {error}", is_bad=True))
    return turned(request, url(request, "jobs"), f"Job {found.id} is deleted.")


@routes.get("/jobs/{job}/clone", Permission.RETRY_JOBS)
async def clone_page(request: Request, job: str, client: Seen) -> Response:
    """Ask for the arguments of a job that is made after a finished one."""
    found = await client.jobs.get(job)
    return _clone(request, found, written(found.args))


@routes.post("/jobs/{job}/clone", Permission.RETRY_JOBS)
async def clone_job_here(request: Request, job: str, client: Seen, args: str = Form(max_length=1_000_000)) -> Response:
    """Enqueue a changed copy of a finished job."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue)
    try:
        changes = await asyncio.to_thread(edited.changes, found, args)
        noted(request, changed=sorted(changes))
        new = await client.jobs.clone(found.id, changes)
    except (InvalidValue, Conflict) as error:
        return _clone(request, found, args, mistake=str(error))
    noted(request, new=new.id)
    return turned(request, url(request, "jobs", new.id), f"Enqueued, after {found.id}.")


def _clone(request: Request, job: Job, text: str, mistake: str | None = None) -> Response:
    status = 200 if mistake is None else 422
    return page(request, "clone.html", at="jobs", status=status, live="", job=job, text=text, mistake=mistake)


async def _done(request: Request, job: Job, deed: Awaitable[Job], said: Said) -> Response:
    """Do it, go back to the job, and let the page say what came of it; what stands in the way can be looked at."""
    back = url(request, "jobs", job.id)
    try:
        changed = await deed
    except (InvalidValue, Conflict, JobNotFound) as error:
        other = error.job_id if isinstance(error, UniqueConflict) else None
        see = None if other is None else encode(other)
        return turned(request, back, Said(f"Not done: {error}", is_bad=True, see=see))
    return turned(request, back, Said("Its worker asks it to stop.") if changed.state is JobState.RUNNING else said)


def _try(attempt: Attempt) -> Try:
    error = attempt.error_class
    if error is not None and attempt.error:
        error = f"{error}: {attempt.error}"
    trace = attempt.traceback or ""
    return Try(attempt, error, folded(trace), trace)


def _last(seen: Shown) -> Try | None:
    """The attempt that a job ended with, which is on its row and not among the others."""
    job = seen.job
    if not job.is_finished or job.claimed_at is None or any(attempt.claim == job.claim for attempt in job.attempts):
        return None
    trace = job.traceback or ""
    ended = Attempt(
        claim=job.claim,
        attempt=job.attempt,
        worker=job.worker,
        claimed_at=job.claimed_at,
        started_at=job.started_at,
        finished_at=job.finished_at or job.run_at,
        outcome=job.state.value,
    )
    return Try(ended, seen.error, folded(trace), trace)


def _lines(job: Job, logged: Sequence[LogLine]) -> list[tuple[LogLine, str]]:
    """The newest lines of the log; where there are several attempts, the first of each has a heading."""
    lines = logged[-_MOST_LINES:]
    numbers = {job.claim: job.attempt, **{ended.claim: ended.attempt for ended in job.attempts}}
    is_several = len({line.claim for line in lines}) > 1
    found, before = [], None
    for line in lines:
        heading = f"attempt {numbers.get(line.claim, '?')}" if is_several and line.claim != before else ""
        found.append((line, heading))
        before = line.claim
    return found


async def _sets(client: ScopedClient, job: Job) -> list[Items]:
    items = await client.jobs.items(job.id) if job.items else []
    return [
        Items(name, counts, [item for item in items if (item.set, item.state) == (name, "failed")][:_MOST_ITEMS])
        for name, counts in job.items.items()
    ]


def _values(job: Job) -> list[Json]:
    given: list[tuple[str, Any]] = [("Arguments", job.args)]
    if job.result is not None:
        given.append(("Result", job.result))
    if job.progress is not None and job.progress.data is not None:
        given.append(("Progress", job.progress.data))
    results = {phase.name: phase.result for phase in job.phases if phase.result is not None}
    if results:
        given.append(("Results of phases", results))
    return [Json(title, value, text := written(value), is_tree(text)) for title, value in given]


async def _holds(client: ScopedClient, job: Job) -> list[str]:
    """Say which locks and slots a running job has, and what a waiting one waits for."""
    if job.state is not JobState.RUNNING:
        return [f"waits for {job.limit_key}"] if job.limit_key and not job.is_finished else []
    found = [f"lock {lock.name}" for lock in await client.locks.list() if lock.job == job.id]
    for limit in await client.limits.list():
        if any(holder.job == job.id for holder in limit.holders):
            taken = "" if limit.maximum is None else f" ({limit.taken} of {limit.maximum} taken)"
            found.append(f"a slot of {limit.name}{taken}")
    return found
