"""Escalations: what went wrong, and who has answered."""

from typing import Annotated

from fastapi import Body, Query, Request

from holdfast.resources.escalation import (
    AckRequest,
    EscalationDetail,
    EscalationInfo,
    EscalationPage,
    PolicyTest,
    PolicyTestRequest,
    SnoozeRequest,
)
from holdfast.server.api.parameters import NAME, Before, Limit, Number
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("escalations", "/escalations")


@routes.get("", Permission.LOOK, summary="List escalations")
async def list_escalations(
    client: Seen,
    is_open: Annotated[
        bool | None, Query(alias="open", examples=[True], description="Only those that are open, or (false) closed.")
    ] = None,
    policy: Annotated[
        str | None, Query(max_length=NAME, examples=["ops"], description="Only those of this policy.")
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> EscalationPage:
    """Read escalations, newest first; a page may hold fewer than `limit`, also when there is a next one."""
    return await client.escalations.list(is_open=is_open, policy=policy, limit=limit, before=before)


@routes.get("/{number}", Permission.LOOK, summary="Read an escalation")
async def read_escalation(number: Number, client: Seen) -> EscalationDetail:
    """Read one escalation and the notices about it."""
    return await client.escalations.get(number)


@routes.post("/{number}/ack", Permission.ANSWER_ESCALATIONS, summary="Acknowledge an escalation")
async def ack_escalation(
    number: Number, client: Seen, request: Request, asked: Annotated[AckRequest | None, Body()] = None
) -> EscalationInfo:
    """Acknowledge an escalation, which closes it; the first answer counts."""
    note = None if asked is None else asked.note
    await note_queue(request, client, number, note=note)
    return await client.escalations.ack(number, note=note)


@routes.post("/{number}/snooze", Permission.ANSWER_ESCALATIONS, summary="Snooze an escalation")
async def snooze_escalation(number: Number, asked: SnoozeRequest, client: Seen, request: Request) -> EscalationInfo:
    """Send no notice of an open escalation for a while; it goes on counting, and its policy is notified then."""
    await note_queue(request, client, number, lasts=asked.lasts, until=asked.until)
    return await client.escalations.snooze(number, until=asked.until, lasts=asked.lasts)


@routes.post("/test", Permission.ANSWER_ESCALATIONS, whole=True, summary="Test a policy")
async def check_policy(asked: PolicyTestRequest, client: Seen, request: Request) -> PolicyTest:
    """Send a test notice through the channels of an escalation policy now, and say what each of them answered."""
    noted(request, policy=asked.policy)
    return await client.escalations.test(asked.policy)


async def note_queue(request: Request, client: ScopedClient, number: int | str, **facts: object) -> None:
    """Record in the audit which queue an escalation is of."""
    found = await client.escalations.get(number)
    noted(request, queue=found.escalation.queue or None, **facts)
