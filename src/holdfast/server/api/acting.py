"""Acting on one job: cancel, retry, reschedule, reprioritise, clone with other arguments, delete."""

from typing import Annotated

from fastapi import Body, Request, Response

from holdfast.resources.job import Job
from holdfast.resources.job_requests import (
    CancelRequest,
    CloneRequest,
    ReprioritiseRequest,
    RescheduleRequest,
    RetryRequest,
)
from holdfast.server.api.jobs import Id
from holdfast.server.pages.rendering import url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("jobs", "/jobs")


@routes.post("/{id}/cancel", Permission.CANCEL_JOBS, summary="Cancel a job")
async def cancel_job(
    id: Id,  # noqa: A002 - the name in the address
    client: Seen,
    request: Request,
    asked: Annotated[CancelRequest | None, Body()] = None,
) -> Job:
    """Cancel a job: a waiting one at once; a running one is `running` until its handler has stopped."""
    reason = None if asked is None else asked.reason
    return await client.jobs.cancel(await _noted(request, client, id, reason=reason), reason=reason)


@routes.post("/{id}/retry", Permission.RETRY_JOBS, summary="Retry a job")
async def retry_job(
    id: Id,  # noqa: A002 - the name in the address
    client: Seen,
    request: Request,
    asked: Annotated[RetryRequest | None, Body()] = None,
) -> Job:
    """Start a failed, cancelled or partly completed job over.

    Completed phases keep their results and are not run again; `from_phase` runs that one and all later ones again.
    """
    phase = None if asked is None else asked.from_phase
    return await client.jobs.retry(await _noted(request, client, id, from_phase=phase), from_phase=phase)


@routes.post("/{id}/reschedule", Permission.RESCHEDULE_JOBS, summary="Reschedule a job")
async def reschedule_job(id: Id, client: Seen, request: Request, asked: RescheduleRequest) -> Job:  # noqa: A002 - the name in the address
    """Set when a waiting job may run: `run_at` or `delay`, one of them."""
    job = await _noted(request, client, id, run_at=asked.run_at, delay=asked.delay)
    return await client.jobs.reschedule(job, run_at=asked.run_at, delay=asked.delay)


@routes.post("/{id}/reprioritise", Permission.RESCHEDULE_JOBS, summary="Change the priority of a job")
async def reprioritise_job(id: Id, client: Seen, request: Request, asked: ReprioritiseRequest) -> Job:  # noqa: A002 - the name in the address
    """Move a waiting job to another priority, behind those that wait there."""
    return await client.jobs.reprioritise(await _noted(request, client, id, priority=asked.priority), asked.priority)


@routes.post("/{id}/clone", Permission.RETRY_JOBS, summary="Clone a job with other arguments", status_code=201)
async def clone_job(
    id: Id,  # noqa: A002 - the name in the address
    client: Seen,
    request: Request,
    response: Response,
    asked: Annotated[CloneRequest | None, Body()] = None,
) -> Job:
    """Enqueue a changed copy of a finished job, which names it as its `origin`; the old one stays as it is.

    `args` are the arguments that differ, and are checked as those of a new job are. What was secret stays so.
    """
    changes = {} if asked is None else asked.args
    job = await _noted(request, client, id, changed=sorted(changes))
    new = await client.jobs.clone(job, changes)
    noted(request, job=new.id)
    response.headers["location"] = url(request, "api", "v1", "jobs", new.id)
    return new


@routes.delete("/{id}", Permission.DELETE_JOBS, summary="Delete a job", status_code=204)
async def delete_job(id: Id, client: Seen, request: Request) -> None:  # noqa: A002 - the name in the address
    """Delete a finished job and all that is kept of it; one that is live is cancelled first."""
    await client.jobs.delete(await _noted(request, client, id))


async def _noted(request: Request, client: ScopedClient, job: str, **facts: object) -> str:
    """Record in the audit which job is acted on, and how; the answer is its id."""
    found = await client.jobs.get(job)
    noted(request, queue=found.queue, kind=found.kind, **facts)
    return found.id
