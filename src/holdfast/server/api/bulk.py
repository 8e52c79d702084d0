"""Bulk operations: one change to many jobs, previewed, made batch by batch, stopped at any time."""

from typing import Annotated, Any

from fastapi import Body, Request, Response

from holdfast.errors import InvalidValue
from holdfast.resources.bulk import BulkOperation, BulkOperationList, BulkPreviewRequest, BulkRequest, BulkVerb
from holdfast.resources.queue import JobCount
from holdfast.server.api.choosing import chosen, named
from holdfast.server.api.parameters import Limit, Number
from holdfast.server.pages.rendering import url
from holdfast.server.principal import Principal
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted, require_role
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import JobFilter

routes = Routes("bulk", "/bulk")

_EXAMPLES: Any = {
    "filter": {
        "summary": "Retry all that failed within the last hour",
        "value": {"verb": "retry", "q": "kind:send_email state:failed since:1h", "rate": "50/s"},
    }
}


@routes.post("/preview", Permission.LOOK, summary="Count what a bulk operation would change")
async def preview_bulk(client: Seen, asked: BulkPreviewRequest) -> JobCount:
    """Count the jobs that an operation would change now, at most 10,000 of them and for a second; nothing changes."""
    return await client.bulk.preview(asked.verb, _which(asked))


@routes.post("", Permission.CHANGE_MANY_JOBS, summary="Start a bulk operation", status_code=201)
async def start_bulk(
    request: Request,
    response: Response,
    client: Seen,
    asked: Annotated[BulkRequest, Body(openapi_examples=_EXAMPLES)],
) -> BulkOperation:
    """Retry, cancel, reprioritise, reschedule or delete all jobs that fit; deleting needs the role admin.

    The operation is stored, and the leader of the services works on it batch by batch: it outlives this request, and
    this server. Jobs that fit only after it was started are left alone.
    """
    which = _which(asked)
    noted(request, verb=asked.verb, q=asked.q, ids=asked.ids, reason=asked.reason)
    noted(request, priority=asked.priority, run_at=asked.run_at, delay=asked.delay)
    require_role_for(client.principal, asked.verb)  # guard: bulk-delete-role
    operation = await client.bulk.start(
        asked.verb,
        which,
        rate=asked.rate,
        priority=asked.priority,
        run_at=asked.run_at,
        delay=asked.delay,
        reason=asked.reason,
    )
    noted(request, operation=operation.id, expected=operation.expected.jobs)
    response.headers["location"] = url(request, "api", "v1", "bulk", operation.id)
    return operation


@routes.get("", Permission.LOOK, summary="List bulk operations")
async def list_bulk(client: Seen, limit: Limit = 50) -> BulkOperationList:
    """Read the operations of the last 30 days, newest first."""
    return BulkOperationList(operations=await client.bulk.list(limit))


@routes.get("/{operation}", Permission.LOOK, summary="Read a bulk operation")
async def read_bulk(operation: Number, client: Seen) -> BulkOperation:
    """Read one operation: how far it is, and whether it has finished."""
    return await client.bulk.get(operation)


@routes.post("/{operation}/pause", Permission.CHANGE_MANY_JOBS, summary="Pause a bulk operation")
async def pause_bulk(operation: Number, client: Seen) -> BulkOperation:
    """Pause an operation after the batch that it is at."""
    return await client.bulk.pause(await _changeable(client, operation))


@routes.post("/{operation}/resume", Permission.CHANGE_MANY_JOBS, summary="Resume a bulk operation")
async def resume_bulk(operation: Number, client: Seen) -> BulkOperation:
    """Let a paused operation go on where it was, and one that waits after an error try again now."""
    return await client.bulk.resume(await _changeable(client, operation))


@routes.post("/{operation}/cancel", Permission.CHANGE_MANY_JOBS, summary="Cancel a bulk operation")
async def cancel_bulk(operation: Number, client: Seen) -> BulkOperation:
    """End an operation after the batch that it is at; what is done stays done."""
    return await client.bulk.cancel(operation)


def _which(asked: BulkPreviewRequest | BulkRequest) -> JobFilter:
    if (asked.q is None) == (asked.ids is None):
        message = 'which jobs: expected either q or ids; q "" means all that the verb can change'
        raise InvalidValue(message)
    return chosen(asked.q) if asked.ids is None else named(asked.ids)


def require_role_for(principal: Principal, verb: BulkVerb) -> None:
    """Refuse a verb of bulk operations that a role is too small for."""
    require_role(principal, Permission.DELETE_JOBS if verb is BulkVerb.DELETE else Permission.CHANGE_MANY_JOBS)


async def _changeable(client: ScopedClient, number: str) -> str:
    operation = await client.bulk.get(number)
    require_role_for(client.principal, operation.verb)  # guard: api-run-role
    return operation.id
