"""Acting on one job: cancel, retry, put off, hurry, replay with other arguments, delete."""

from typing import Annotated

from fastapi import Body, Request, Response

from holdfast.server.api.acting_shapes import (
    CancelRequest,
    ReplayRequest,
    ReprioritiseRequest,
    RescheduleRequest,
    RetryRequest,
)
from holdfast.server.api.enqueueing import kinds
from holdfast.server.api.job_shapes import WholeJob, whole_job
from holdfast.server.api.jobs import Id
from holdfast.server.pages.rendering import url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("jobs", "/jobs")


@routes.post("/{id}/cancel", Permission.CANCEL_JOBS, summary="Cancel a job")
async def cancel_job(
    id: Id,  # noqa: A002 - the name in the address
    sight: Seen,
    request: Request,
    asked: Annotated[CancelRequest | None, Body()] = None,
) -> WholeJob:
    """Cancel a job: a waiting one at once; a running one is told, and is `running` until its handler has stopped."""
    job = await sight.job(id)
    reason = None if asked is None else asked.reason
    noted(request, queue=job.queue, kind=job.kind, reason=reason)
    await sight.client.cancel(job.id, actor=sight.principal.name, reason=reason)
    return whole_job(await sight.job(id))


@routes.post("/{id}/retry", Permission.RETRY_JOBS, summary="Retry a job")
async def retry_job(
    id: Id,  # noqa: A002 - the name in the address
    sight: Seen,
    request: Request,
    asked: Annotated[RetryRequest | None, Body()] = None,
) -> WholeJob:
    """Give a failed, cancelled or partly completed job a new life.

    Completed phases keep their results and are not run again; `from_phase` runs that one and all later ones anew.
    """
    job = await sight.job(id)
    phase = None if asked is None else asked.from_phase
    noted(request, queue=job.queue, kind=job.kind, from_phase=phase)
    await sight.retry(job, from_phase=phase)
    return whole_job(await sight.job(id))


@routes.post("/{id}/reschedule", Permission.RESCHEDULE_JOBS, summary="Reschedule a job")
async def reschedule_job(id: Id, sight: Seen, request: Request, asked: RescheduleRequest) -> WholeJob:  # noqa: A002 - the name in the address
    """Set when a waiting job is due: `run_at` or `delay`, one of them."""
    job = await sight.job(id)
    noted(request, queue=job.queue, kind=job.kind, run_at=asked.run_at, delay=asked.delay)
    await sight.client.reschedule(job.id, run_at=asked.run_at, run_in=asked.delay)
    return whole_job(await sight.job(id))


@routes.post("/{id}/reprioritise", Permission.RESCHEDULE_JOBS, summary="Change the priority of a job")
async def reprioritise_job(id: Id, sight: Seen, request: Request, asked: ReprioritiseRequest) -> WholeJob:  # noqa: A002 - the name in the address
    """Move a waiting job to another priority, behind those that wait there."""
    job = await sight.job(id)
    noted(request, queue=job.queue, kind=job.kind, priority=asked.priority)
    await sight.client.reprioritise(job.id, asked.priority)
    return whole_job(await sight.job(id))


@routes.post("/{id}/replay", Permission.RETRY_JOBS, summary="Replay a job with other arguments", status_code=201)
async def replay_job(
    id: Id,  # noqa: A002 - the name in the address
    sight: Seen,
    request: Request,
    response: Response,
    asked: Annotated[ReplayRequest | None, Body()] = None,
) -> WholeJob:
    """Enqueue a finished job anew, as a new job that names it as its `origin`; the old one stays as it is.

    `args` are the arguments that differ, and are checked as those of a new job are. What was secret stays so.
    """
    job = await sight.job(id)
    changes = {} if asked is None else asked.args
    noted(request, queue=job.queue, kind=job.kind, changed=sorted(changes))
    new = await kinds(request).replay(sight, job, changes)
    noted(request, job=new.public_id)
    response.headers["location"] = url(request, "api", "v1", "jobs", new.public_id)
    return whole_job(new)


@routes.delete("/{id}", Permission.DELETE_JOBS, summary="Delete a job", status_code=204)
async def delete_job(id: Id, sight: Seen, request: Request) -> None:  # noqa: A002 - the name in the address
    """Delete a finished job and all that is kept of it; one that is live is cancelled first."""
    job = await sight.job(id)
    noted(request, queue=job.queue, kind=job.kind)
    await sight.client.delete(job.id)
