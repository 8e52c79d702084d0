"""The audit: who did what, or tried to."""

from typing import Annotated

from fastapi import Query

from holdfast.resources.audit import AuditPage
from holdfast.server.api.parameters import NAME, Before, Limit
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("audit", "/audit")

_LONGEST = 500


Text = Annotated[str | None, Query(max_length=_LONGEST)]


@routes.get("", Permission.READ_AUDIT, summary="Read the audit")
async def read_audit(
    client: Seen,
    *,
    actor: Annotated[Text, Query(examples=["ann"], description="Only what this one did.")] = None,
    action: Annotated[Text, Query(examples=["pause_queue"], description="Only this action.")] = None,
    target: Annotated[Text, Query(examples=["/api/v1/queues/high/pause"], description="Only to this.")] = None,
    queue: Annotated[
        str | None, Query(max_length=NAME, examples=["high"], description="Only what concerns this queue.")
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> AuditPage:
    """Read what was done, the latest first; it is kept for 400 days.

    One call looks at 20,000 rows: a page may hold fewer than were asked for, also when there is a next one.
    """
    return await client.audit.list(actor=actor, action=action, target=target, queue=queue, limit=limit, before=before)
