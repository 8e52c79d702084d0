"""Escalations as the API shows and takes them."""

from datetime import datetime

import msgspec
from pydantic import Field

from holdfast import public_id
from holdfast.server.api.parameters import NAME, Instant
from holdfast.server.api.shape import Asked, Moment, Shape, Told, ToldValue
from holdfast.stores.alarms import EscalationRow, NoticeRow


class Ack(Asked):
    """What was found, or is being done."""

    note: str | None = Field(None, max_length=250, examples=["the disk was full"])


class Snooze(Asked):
    """How long nothing is said of it: for a length of time, or until a time."""

    lasts: str | None = Field(None, max_length=40, examples=["2h"])
    until: Instant | None = Field(None, examples=[None])


class TestAsked(Asked):
    """Which policy is tested."""

    policy: str = Field(max_length=NAME, examples=["ops"])


class ChannelTest(Shape):
    """What became of a test message to one channel; `error` is null when it was sent."""

    channel: str = Field(examples=["pager"])
    error: Told | None = Field(examples=[None])


class TestShape(Shape):
    """What became of the test messages of a policy."""

    policy: str = Field(examples=["ops"])
    channels: list[ChannelTest]


class NoticeShape(Shape):
    """A message about an escalation; `state` is pending, sent or failed."""

    id: str = Field(examples=["31"])
    channel: str = Field(examples=["pager"])
    event: str = Field(examples=["opened"])
    state: str = Field(examples=["sent"])
    tries: int = Field(examples=[1])
    created_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    next_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    ended_at: Moment | None = Field(examples=["2026-11-16T09:30:01Z"])
    error: Told | None = Field(examples=[None])


class EscalationShape(Shape):
    """Alarms that belong together, and how far people have come with them.

    `state` is open, unanswered (it was told more than once, or to the next in line), snoozed, acknowledged or closed.
    """

    id: str = Field(examples=["17"])
    state: str = Field(examples=["open"])
    policy: str = Field(description="Who was told first.", examples=["ops"])
    stage: str = Field(description="The policy in charge by now.", examples=["ops"])
    source: str = Field(examples=["failed"])
    queue: str = Field(examples=["high"])
    kind: str = Field(examples=["send_mail"])
    fingerprint: Told = Field(examples=["ConnectionError mail.py:send"])
    title: Told = Field(examples=["send_mail failed: the mail provider does not answer"])
    details: ToldValue = Field(examples=[None])
    jobs: list[str] = Field(description="The public ids of the latest.", examples=[["htcx-2s16-z48b-09"]])
    count: int = Field(examples=[3])
    first_at: Moment = Field(examples=["2026-11-16T08:00:00Z"])
    last_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    told_at: Moment | None = Field(examples=["2026-11-16T08:00:01Z"])
    due_at: Moment | None = Field(description="By when somebody has to answer.", examples=["2026-11-16T08:15:00Z"])
    snoozed_until: Moment | None = Field(examples=[None])
    snoozed_by: str | None = Field(examples=[None])
    acked_at: Moment | None = Field(examples=[None])
    acked_by: str | None = Field(examples=[None])
    note: str | None = Field(examples=[None])
    closed_at: Moment | None = Field(examples=[None])


class EscalationList(Shape):
    """One page of escalations, the newest first; `next` is `before` of the next page, null on the last one."""

    escalations: list[EscalationShape]
    next: str | None = Field(examples=["12"])


class EscalationDetail(Shape):
    """An escalation, and the messages about it."""

    escalation: EscalationShape
    notices: list[NoticeShape]


def escalation_shape(row: EscalationRow, now: datetime) -> EscalationShape:
    """Show an escalation."""
    return EscalationShape(
        id=str(row.id),
        state=row.standing(now),
        policy=row.policy,
        stage=row.stage,
        source=row.source,
        queue=row.queue,
        kind=row.kind,
        fingerprint=row.fingerprint,
        title=row.title,
        details=None if row.details is None else msgspec.json.decode(row.details),
        jobs=[public_id.encode(job) for job in row.jobs],
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        told_at=row.told_at,
        due_at=row.due_at,
        snoozed_until=row.snoozed_until,
        snoozed_by=row.snoozed_by,
        acked_at=row.acked_at,
        acked_by=row.acked_by,
        note=row.note,
        closed_at=row.closed_at,
    )


def notice_shape(row: NoticeRow) -> NoticeShape:
    """Show a message."""
    return NoticeShape(
        id=str(row.id),
        channel=row.channel,
        event=row.event,
        state=row.state,
        tries=row.tries,
        created_at=row.created_at,
        next_at=row.next_at,
        ended_at=row.ended_at,
        error=row.error,
    )
