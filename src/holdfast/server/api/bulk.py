"""Bulk runs: one change to many jobs, previewed, made batch by batch, stopped at any time."""

from typing import Annotated, Any

from fastapi import Body, Request, Response

from holdfast.client.bulk import changeable
from holdfast.errors import InvalidValue
from holdfast.server.api.bulk_shapes import (
    BulkList,
    BulkRequest,
    BulkShape,
    PreviewRequest,
    PreviewShape,
    bulk_shape,
)
from holdfast.server.api.choosing import chosen, named
from holdfast.server.api.parameters import Limit, Number
from holdfast.server.pages.rendering import url
from holdfast.server.principal import Principal
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted, require_role
from holdfast.server.sight import Sight
from holdfast.stores.bulk import COUNT_CAP, BulkRun, BulkVerb
from holdfast.stores.values import JobFilter

routes = Routes("bulk", "/bulk")

COUNTING_MS = 1_000
_LOOKED_AT = 1_000
_EXAMPLES: Any = {
    "filter": {
        "summary": "Retry all that failed within the last hour",
        "value": {"verb": "retry", "q": "kind:send_email state:failed since:1h", "rate": "50/s"},
    }
}


@routes.post("/preview", Permission.LOOK, summary="Count what a bulk run would change")
async def preview_bulk(sight: Seen, asked: PreviewRequest) -> PreviewShape:
    """Count the jobs that a run would change now, at most 10,000 of them and for a second; nothing is changed."""
    which = changeable(asked.verb, await _which(sight, asked))
    # Who may only look may not keep the database busy either: a search for words goes through all there is.
    counted = await sight.store.count_found(which, most=COUNT_CAP, budget_ms=COUNTING_MS)
    return PreviewShape(jobs=min(counted.jobs, COUNT_CAP - 1), capped=counted.capped)


@routes.post("", Permission.CHANGE_MANY_JOBS, summary="Start a bulk run", status_code=201)
async def start_bulk(
    request: Request,
    response: Response,
    sight: Seen,
    asked: Annotated[BulkRequest, Body(openapi_examples=_EXAMPLES)],
) -> BulkShape:
    """Retry, cancel, reprioritise, reschedule or delete all jobs that fit; deleting needs the role admin.

    The run is stored and worked batch by batch by whoever leads the services: it outlives this request, and this
    server. Jobs that come to fit after it has begun are left alone.
    """
    which = await _which(sight, asked)
    noted(request, verb=asked.verb, q=asked.q, ids=asked.ids, reason=asked.reason)
    noted(request, priority=asked.priority, run_at=asked.run_at, delay=asked.delay)
    require_role_for(sight.principal, asked.verb)  # guard: bulk-delete-role
    run = await sight.client.start_bulk(
        asked.verb,
        which,
        rate=asked.rate,
        priority=asked.priority,
        run_at=asked.run_at,
        run_in=asked.delay,
        actor=sight.principal.name,
        reason=asked.reason,
    )
    noted(request, run=run.id, expected=run.expected)
    response.headers["location"] = url(request, "api", "v1", "bulk", run.id)
    return bulk_shape(run)


@routes.get("", Permission.LOOK, summary="List bulk runs")
async def list_bulk(sight: Seen, limit: Limit = 50) -> BulkList:
    """Read the runs of the last 30 days, the newest first."""
    mine = sight.principal.queues
    runs = await sight.client.bulk_runs(limit if mine is None else _LOOKED_AT)
    return BulkList(runs=[bulk_shape(run) for run in runs if sight.sees_run(run)][:limit])


@routes.get("/{run}", Permission.LOOK, summary="Read a bulk run")
async def read_bulk(run: Number, sight: Seen) -> BulkShape:
    """Read one run: how far it is, and whether it has ended."""
    return bulk_shape(await sight.bulk_run(int(run)))


@routes.post("/{run}/pause", Permission.CHANGE_MANY_JOBS, summary="Pause a bulk run")
async def pause_bulk(run: Number, sight: Seen) -> BulkShape:
    """Let a run stand still after the batch that it is at."""
    return bulk_shape(await sight.client.pause_bulk((await _changeable(sight, run)).id))


@routes.post("/{run}/resume", Permission.CHANGE_MANY_JOBS, summary="Resume a bulk run")
async def resume_bulk(run: Number, sight: Seen) -> BulkShape:
    """Let a paused run go on where it was, and one that waits because of an error try again now."""
    return bulk_shape(await sight.client.resume_bulk((await _changeable(sight, run)).id))


@routes.post("/{run}/cancel", Permission.CHANGE_MANY_JOBS, summary="Cancel a bulk run")
async def cancel_bulk(run: Number, sight: Seen) -> BulkShape:
    """End a run after the batch that it is at; what is done stays done."""
    return bulk_shape(await sight.client.cancel_bulk((await sight.bulk_run(int(run))).id))


async def _which(sight: Sight, asked: PreviewRequest) -> JobFilter:
    if (asked.q is None) == (asked.ids is None):
        message = 'which jobs: expected either q or ids; q "" means all that the verb can change'
        raise InvalidValue(message)
    return await sight.asked(chosen(asked.q) if asked.ids is None else named(asked.ids))


def require_role_for(principal: Principal, verb: BulkVerb) -> None:
    """Refuse a verb of bulk runs that a role is too small for."""
    require_role(principal, Permission.DELETE_JOBS if verb is BulkVerb.DELETE else Permission.CHANGE_MANY_JOBS)


async def _changeable(sight: Sight, number: str) -> BulkRun:
    run = await sight.bulk_run(int(number))
    require_role_for(sight.principal, run.verb)  # guard: api-run-role
    return run
