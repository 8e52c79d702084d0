"""The audit: who has done what, or tried to."""

from typing import Annotated, Any

import msgspec
from fastapi import Query
from pydantic import Field

from holdfast.server.api.parameters import NAME, Before, Limit, as_number
from holdfast.server.api.shape import Moment, Shape
from holdfast.server.deeds import search_deeds
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.stores.access import AuditFilter, AuditRow

routes = Routes("audit", "/audit")

_LONGEST = 500


class DeedShape(Shape):
    """What somebody has done, or tried to do; `status` is what came of it, as HTTP has it."""

    id: str = Field(examples=["1042"])
    at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    actor: str = Field(examples=["ann"])
    role: str = Field(examples=["operator"])
    action: str = Field(examples=["pause_queue"])
    target: str = Field(examples=["/api/v1/queues/high/pause"])
    queue: str | None = Field(examples=["high"])
    status: int = Field(examples=[200])
    detail: Any = Field(description="What was asked for, without secrets.", examples=[{"reason": "too slow"}])
    request: str = Field(description="The id of the request, as in the log.", examples=["9f86d081884c7d65"])


class Audit(Shape):
    """One page of the audit, the latest first; `next` is `before` of the next page, null on the last one."""

    deeds: list[DeedShape]
    next: str | None = Field(examples=["1042"])


Text = Annotated[str | None, Query(max_length=_LONGEST)]


@routes.get("", Permission.READ_AUDIT, summary="Read the audit")
async def read_audit(
    sight: Seen,
    *,
    actor: Annotated[Text, Query(examples=["ann"], description="Only what this one did.")] = None,
    action: Annotated[Text, Query(examples=["pause_queue"], description="Only this action.")] = None,
    target: Annotated[Text, Query(examples=["/api/v1/queues/high/pause"], description="Only to this.")] = None,
    queue: Annotated[
        str | None, Query(max_length=NAME, examples=["high"], description="Only what concerns this queue.")
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> Audit:
    """Read what was done, the latest first; it is kept for 400 days.

    One call looks at 20,000 rows: a page may hold fewer than were asked for, also when there is a next one.
    """
    if queue is not None:
        sight.require_queue(queue)
    mine = sight.principal.queues
    queues = (queue,) if queue is not None else None if mine is None else tuple(sorted(mine))
    which = AuditFilter(actor=actor, action=action, target=target, queues=queues)
    found = await search_deeds(sight.store, which, limit=limit, before=as_number(before))
    return Audit(deeds=[deed_shape(row) for row in found.deeds], next=None if found.next is None else str(found.next))


def deed_shape(row: AuditRow) -> DeedShape:
    """Show a deed."""
    return DeedShape(
        id=str(row.id),
        at=row.at,
        actor=row.actor,
        role=row.role,
        action=row.action,
        target=row.target,
        queue=row.queue,
        status=row.status,
        detail=msgspec.json.decode(row.detail),
        request=row.request,
    )
