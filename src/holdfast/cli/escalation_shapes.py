"""What `--json` prints of escalations; the rules are those of `shapes`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from holdfast import ages, public_id
from holdfast.client.escalations import EscalationState
from holdfast.stores.alarms import EscalationRow


class EscalationShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `escalations list --json`."""

    id: int
    state: str
    policy: str
    stage: str
    source: str
    queue: str
    kind: str
    fingerprint: str
    title: str
    details: msgspec.Raw
    jobs: tuple[str, ...]
    count: int
    first_at: datetime
    last_at: datetime
    told_at: datetime | None
    due_at: datetime | None
    snoozed_until: datetime | None
    snoozed_by: str | None
    acked_at: datetime | None
    acked_by: str | None
    note: str | None
    closed_at: datetime | None


class EscalationsShape(msgspec.Struct, frozen=True):
    """`escalations list --json`."""

    escalations: Sequence[EscalationShape]


class NoticeShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each message of `escalations show --json`."""

    id: int
    policy: str
    channel: str
    event: str
    state: str
    tries: int
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None
    error: str | None


class StateShape(msgspec.Struct, frozen=True):
    """`escalations show --json`."""

    escalation: EscalationShape
    messages: Sequence[NoticeShape]


class SentShape(msgspec.Struct, frozen=True):
    """Each channel of `escalations test --json`."""

    channel: str
    sent: bool
    error: str | None


class TestedShape(msgspec.Struct, frozen=True):
    """`escalations test --json`."""

    policy: str
    channels: Sequence[SentShape]


def escalation(row: EscalationRow) -> EscalationShape:
    """Show an escalation."""
    return EscalationShape(
        id=row.id,
        state=row.standing(ages.now()),
        policy=row.policy,
        stage=row.stage,
        source=row.source,
        queue=row.queue,
        kind=row.kind,
        fingerprint=row.fingerprint,
        title=row.title,
        details=msgspec.Raw((row.details or "null").encode()),
        jobs=tuple(public_id.encode(job) for job in row.jobs),
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


def state(known: EscalationState) -> StateShape:
    """Show an escalation and its messages."""
    messages = [
        NoticeShape(
            id=notice.id,
            policy=notice.policy,
            channel=notice.channel,
            event=notice.event,
            state=notice.state,
            tries=notice.tries,
            created_at=notice.created_at,
            next_at=notice.next_at if notice.state == "pending" else None,
            ended_at=notice.ended_at,
            error=notice.error,
        )
        for notice in known.notices
    ]
    return StateShape(escalation(known.escalation), messages)


def tested(policy: str, errors: Mapping[str, str | None]) -> TestedShape:
    """Show what became of a test."""
    return TestedShape(policy, [SentShape(channel, error is None, error) for channel, error in errors.items()])
