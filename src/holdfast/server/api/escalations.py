"""Escalations: what went wrong, and who has taken it over."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Body, Query, Request

from holdfast.server.api.escalation_shapes import (
    Ack,
    ChannelTest,
    EscalationDetail,
    EscalationList,
    EscalationShape,
    Snooze,
    TestAsked,
    TestShape,
    escalation_shape,
    notice_shape,
)
from holdfast.server.api.parameters import NAME, Before, Limit, Number, as_number, next_before
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted, served
from holdfast.server.sight import Sight
from holdfast.services.sending import Sender, require_channels

routes = Routes("escalations", "/escalations")


@routes.get("", Permission.LOOK, summary="List escalations")
async def list_escalations(
    sight: Seen,
    is_open: Annotated[
        bool | None, Query(alias="open", examples=[True], description="Only those that are open, or (false) closed.")
    ] = None,
    policy: Annotated[
        str | None, Query(max_length=NAME, examples=["ops"], description="Only those of this policy.")
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> EscalationList:
    """Read escalations, the newest first; a page may hold fewer than were asked for, also when there is a next one."""
    rows = await sight.client.escalations(is_open=is_open, policy=policy, limit=limit, before=as_number(before))
    now = datetime.now(UTC)
    return EscalationList(
        escalations=[escalation_shape(row, now) for row in await sight.escalations(rows)],
        next=next_before(len(rows), limit, rows[-1].id if rows else None),
    )


@routes.get("/{number}", Permission.LOOK, summary="Read an escalation")
async def read_escalation(number: Number, sight: Seen) -> EscalationDetail:
    """Read one escalation and the messages about it."""
    found = await sight.escalation(int(number))
    now = datetime.now(UTC)
    return EscalationDetail(
        escalation=escalation_shape(found.escalation, now), notices=[notice_shape(row) for row in found.notices]
    )


@routes.post("/{number}/ack", Permission.ANSWER_ESCALATIONS, summary="Answer an escalation")
async def ack_escalation(
    number: Number, sight: Seen, who: Who, request: Request, asked: Annotated[Ack | None, Body()] = None
) -> EscalationShape:
    """Say that somebody has taken an escalation over, which closes it; the first answer counts."""
    note = None if asked is None else asked.note
    await _found(number, sight, request, note=note)
    await sight.client.ack_escalation(int(number), actor=who.name, note=note)
    return escalation_shape((await sight.escalation(int(number))).escalation, datetime.now(UTC))


@routes.post("/{number}/snooze", Permission.ANSWER_ESCALATIONS, summary="Snooze an escalation")
async def snooze_escalation(number: Number, asked: Snooze, sight: Seen, who: Who, request: Request) -> EscalationShape:
    """Say nothing of an open escalation for a while; it goes on counting, and is told again then."""
    await _found(number, sight, request, lasts=asked.lasts, until=asked.until)
    await sight.client.snooze_escalation(int(number), until=asked.until, lasts=asked.lasts, actor=who.name)
    return escalation_shape((await sight.escalation(int(number))).escalation, datetime.now(UTC))


@routes.post("/test", Permission.ANSWER_ESCALATIONS, whole=True, summary="Test a policy")
async def check_policy(asked: TestAsked, request: Request) -> TestShape:
    """Send a test message through the channels of an escalation policy now, and tell what each of them answered."""
    noted(request, policy=asked.policy)
    settings = served(request).settings
    policy = settings.escalations.get(asked.policy.lower())
    if policy is None:
        raise not_found("policy", asked.policy)
    require_channels(settings)
    sender = Sender(settings.channels)
    try:
        sent = await sender.test(policy)
    finally:
        await sender.close()
    return TestShape(
        policy=policy.name, channels=[ChannelTest(channel=name, error=one.error) for name, one in sent.items()]
    )


async def _found(number: str, sight: Sight, request: Request, **facts: object) -> None:
    row = (await sight.escalation(int(number))).escalation
    noted(request, queue=row.queue or None, **facts)
