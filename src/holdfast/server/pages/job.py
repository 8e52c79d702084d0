"""The page of one job: its way through time, what it was given and gave, and what can be done with it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import Form, Request
from starlette.responses import Response

from holdfast.errors import Conflict, InvalidValue, JobNotFound, UniqueConflict
from holdfast.filtering import Term
from holdfast.job import RETRYABLE, WAITING, Attempt, Job, JobState, LogLine
from holdfast.public_id import encode
from holdfast.server.kinds import KindRegistry
from holdfast.server.pages import replaying
from holdfast.server.pages.relations import offspring, relations
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.pages.shown import Shown, is_tree, written
from holdfast.server.pages.traces import Part, folded
from holdfast.server.pages.waterfall import waterfall
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.sight import Sight

routes = Routes("pages", in_schema=False)

_MOST_LINES = 500
_SETS = ("completed", "skipped", "failed", "in_progress")


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
class ItemSet:
    """How far a set of items is."""

    name: str
    total: int
    counts: dict[str, int]
    failed: list[tuple[str, str]]

    @property
    def ended(self) -> int:
        """How many have ended."""
        return sum(count for name, count in self.counts.items() if name != "in_progress")


@routes.get("/jobs/{job}", Permission.LOOK)
async def job_page(request: Request, job: str, sight: Seen) -> Response:
    """Show one job."""
    found = await sight.job(job)
    seen = Shown(found)
    return page(
        request,
        "job.html",
        at="jobs",
        live=f"job:{found.public_id}",
        job=found,
        seen=seen,
        why=seen.text((await sight.why(found)).sentence),
        flow=waterfall(found, datetime.now(UTC)),
        tries=[_try(seen, attempt) for attempt in reversed(found.attempts)],
        last=_last(seen),
        sets=_sets(seen),
        values=_values(seen),
        lines=_lines(seen),
        holds=await _holds(sight, found),
        relations=await relations(sight, found),
        offspring=await offspring(sight, found),
        tags=[(name, value, Term("tag", (value,), (name,)).text()) for name, value in found.tags.items()],
        may_retry=found.state in RETRYABLE,
        may_cancel=not found.is_finished and found.cancel_requested_at is None,
        may_run=found.state in WAITING,
        command=f"holdfast jobs show {found.public_id}",
    )


@routes.post("/jobs/{job}/cancel", Permission.CANCEL_JOBS)
async def cancel_job_here(
    request: Request, job: str, sight: Seen, who: Who, reason: str = Form("", max_length=500)
) -> Response:
    """Cancel a job."""
    found = await sight.job(job)
    noted(request, queue=found.queue, reason=reason or None)
    # Only who was in line goes back there: what was due later would run at once.
    undo = ("jobs", found.public_id, "retry") if found.state is JobState.QUEUED else ()
    deed = sight.client.cancel(found.id, actor=who.name, reason=reason or None)
    return await _done(request, found, deed, Said("Cancelled.", undo=undo))


@routes.post("/jobs/{job}/retry", Permission.RETRY_JOBS)
async def retry_job_here(
    request: Request, job: str, sight: Seen, from_phase: str = Form("", max_length=200)
) -> Response:
    """Give a job a new life."""
    found = await sight.job(job)
    noted(request, queue=found.queue, from_phase=from_phase or None)
    deed = sight.retry(found, from_phase=from_phase or None)
    return await _done(request, found, deed, Said("It is in line again."))


@routes.post("/jobs/{job}/run", Permission.RESCHEDULE_JOBS)
async def run_job_here(request: Request, job: str, sight: Seen) -> Response:
    """Let a waiting job be due now."""
    found = await sight.job(job)
    noted(request, queue=found.queue)
    return await _done(request, found, sight.client.reschedule(found.id, run_in="0s"), Said("It is due now."))


@routes.post("/jobs/{job}/delete", Permission.DELETE_JOBS)
async def delete_job_here(request: Request, job: str, sight: Seen) -> Response:
    """Delete a finished job."""
    found = await sight.job(job)
    noted(request, queue=found.queue)
    try:
        await sight.client.delete(found.id)
    except (InvalidValue, Conflict) as error:
        return turned(request, url(request, "jobs", found.public_id), Said(f"Not done: {error}", is_bad=True))
    return turned(request, url(request, "jobs"), f"Job {found.public_id} is deleted.")


@routes.get("/jobs/{job}/replay", Permission.RETRY_JOBS)
async def replay_page(request: Request, job: str, sight: Seen) -> Response:
    """Ask for the arguments of a job that is made after a finished one."""
    found = await sight.job(job)
    return _replay(request, Shown(found), written(Shown(found).payload))


@routes.post("/jobs/{job}/replay", Permission.RETRY_JOBS)
async def replay_job_here(request: Request, job: str, sight: Seen, args: str = Form(max_length=1_000_000)) -> Response:
    """Enqueue a finished job anew with other arguments."""
    found = await sight.job(job)
    noted(request, queue=found.queue)
    try:
        changes = await asyncio.to_thread(replaying.changes, found, args)
        noted(request, changed=sorted(changes))
        known: KindRegistry = request.app.state.kinds
        new = await known.replay(sight, found, changes)
    except (InvalidValue, Conflict) as error:
        return _replay(request, Shown(found), args, mistake=str(error))
    noted(request, new=new.public_id)
    return turned(request, url(request, "jobs", new.public_id), f"Enqueued, after {found.public_id}.")


def _replay(request: Request, seen: Shown, text: str, mistake: str | None = None) -> Response:
    status = 200 if mistake is None else 422
    return page(
        request, "replay.html", at="jobs", status=status, live="", seen=seen, job=seen.job, text=text, mistake=mistake
    )


async def _done(request: Request, job: Job, deed: Awaitable[JobState], said: Said) -> Response:
    """Do it, go back to the job, and let the page say what came of it; what stands in the way can be looked at."""
    back = url(request, "jobs", job.public_id)
    try:
        state = await deed
    except (InvalidValue, Conflict, JobNotFound) as error:
        other = error.job_id if isinstance(error, UniqueConflict) else None
        see = None if other is None else encode(other)
        return turned(request, back, Said(f"Not done: {error}", is_bad=True, see=see))
    return turned(request, back, Said("Its worker is told to stop.") if state is JobState.RUNNING else said)


def _try(seen: Shown, attempt: Attempt) -> Try:
    error = attempt.error_class
    if error is not None and attempt.error:
        error = f"{error}: {attempt.error}"
    trace = seen.text(attempt.traceback) or ""
    return Try(attempt, seen.text(error), folded(trace), trace)


def _last(seen: Shown) -> Try | None:
    """The attempt that a job ended with, which is on its row and not among the others."""
    job = seen.job
    if not job.is_finished or job.claimed_at is None or any(attempt.claim == job.claim for attempt in job.attempts):
        return None
    trace = seen.text(job.extra.get("traceback")) or ""
    ended = Attempt(
        job.claim,
        job.attempt,
        job.worker,
        job.claimed_at,
        job.started_at,
        job.finished_at or job.run_at,
        job.state.value,
    )
    return Try(ended, seen.error, folded(trace), trace)


def _lines(seen: Shown) -> list[tuple[LogLine, str | None, str]]:
    """The newest lines of the log; where there are several attempts, the first of each has a heading."""
    job = seen.job
    lines = job.logs[-_MOST_LINES:]
    numbers = {job.claim: job.attempt, **{ended.claim: ended.attempt for ended in job.attempts}}
    is_several = len({line.claim for line in lines}) > 1
    found, before = [], None
    for line in lines:
        heading = f"attempt {numbers.get(line.claim, '?')}" if is_several and line.claim != before else ""
        found.append((line, seen.text(line.text), heading))
        before = line.claim
    return found


def _sets(seen: Shown) -> list[ItemSet]:
    found = []
    for name, shape in seen.job.items.items():
        counts = {part: _size(shape.get(f"{name}_{part}")) for part in _SETS}
        total = _size(shape.get(f"{name}_total")) or sum(counts.values())
        failed = shape.get(f"{name}_failed")
        named = [_item(seen, item) for item in failed[:20]] if isinstance(failed, list) else []
        found.append(ItemSet(name, total, counts, named))
    return found


def _item(seen: Shown, item: Any) -> tuple[str, str]:
    if isinstance(item, dict):
        key = next((str(value) for word, value in item.items() if word != "error"), "")
        return seen.text(key) or "", seen.text(str(item.get("error") or "")) or ""
    return seen.text(str(item)) or "", ""


def _size(part: Any) -> int:
    return len(part) if isinstance(part, list | dict) else part if isinstance(part, int) else 0


def _values(seen: Shown) -> list[Json]:
    job = seen.job
    given: list[tuple[str, Any]] = [("Arguments", seen.payload)]
    if job.result_json is not None:
        given.append(("Result", seen.value(job.result)))
    if job.progress is not None and job.progress.data is not None:
        given.append(("Progress", seen.value(job.progress.data)))
    results = {phase.name: seen.value(phase.result) for phase in job.phases if phase.result is not None}
    if results:
        given.append(("Results of phases", results))
    return [Json(title, value, text := written(value), is_tree(text)) for title, value in given]


async def _holds(sight: Sight, job: Job) -> list[str]:
    """Say which locks and slots a running job has, and what a waiting one waits for."""
    if job.state is not JobState.RUNNING:
        return [f"waits for {job.limit_key}"] if job.limit_key and not job.is_finished else []
    found = [f"lock {lock.name}" for lock in await sight.locks.list() if lock.job == job.public_id]
    for limit in await sight.limits.list():
        if any(holder.job == job.public_id for holder in limit.holders):
            taken = "" if limit.maximum is None else f" ({limit.taken} of {limit.maximum} taken)"
            found.append(f"a slot of {limit.name}{taken}")
    return found
