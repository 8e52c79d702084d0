"""Escalations: what went wrong and who has answered; acknowledging and snoozing them, testing their policies."""

from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from holdfast import names, public_id
from holdfast.client.jobs import LARGEST_PAGE, checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.duration import Duration, milliseconds
from holdfast.errors import EscalationNotFound, InvalidValue, WrongState, shown
from holdfast.escalation.facts import dedup_key
from holdfast.escalation.sender import Sender, require_channels
from holdfast.resources.escalation import (
    ChannelTest,
    EscalationDetail,
    EscalationInfo,
    EscalationNotice,
    EscalationPage,
    PolicyTest,
)
from holdfast.stores.alarms import AlarmStore, EscalationRow, NoticeRow
from holdfast.tasks.options import due_time


class Escalations(Protocol):
    """What can be asked of escalations, and done to them; each is named by its number."""

    async def list(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> EscalationPage:
        """Read escalations, newest first: all, those that are open, or those that are closed.

        `before` is `next` of the page before.
        """

    async def get(self, number: int | str) -> EscalationDetail:
        """Read one escalation and the notices about it; EscalationNotFound when there is none."""

    async def ack(self, number: int | str, *, actor: str | None = None, note: str | None = None) -> EscalationInfo:
        """Acknowledge an escalation, which closes it; the first answer counts.

        Pagers and webhooks are notified. The next failure of the same kind opens another one.
        """

    async def snooze(
        self,
        number: int | str,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationInfo:
        """Send no notice of an open escalation until a time; it goes on counting, and its policy is notified then."""

    async def test(self, policy: str) -> PolicyTest:
        """Send a test notice through every channel of a policy now; EscalationNotFound when there is no such policy."""


class LocalEscalations:
    """The escalations of one store, and the policies of its app."""

    def __init__(self, store: AlarmStore, settings: Settings) -> None:
        self._store = store
        self._deadline_s = settings.deadline_s
        self._settings = settings

    async def list(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> EscalationPage:
        """Read escalations, newest first: all, those that are open, or those that are closed."""
        names.count(limit, "limit", LARGEST_PAGE)
        named = None if policy is None else names.name(policy, "policy")
        first = None if before is None else names.number(before, "before")
        rows = await until_answered(
            lambda _: self._store.list_escalations(is_open=is_open, policy=named, limit=limit, before=first),
            self._deadline_s,
            "escalations",
            changes=False,
        )
        following = str(rows[-1].id) if len(rows) == limit else None
        return EscalationPage(escalations=[_escalation(row) for row in rows], next=following)

    async def get(self, number: int | str) -> EscalationDetail:
        """Read one escalation and the notices about it."""
        wanted = names.number(number, "escalation")
        found = await until_answered(
            lambda _: self._store.get_escalation(wanted), self._deadline_s, f"escalation {wanted}", changes=False
        )
        if found is None:
            raise missing_escalation(wanted)
        row, notices = found
        return EscalationDetail(escalation=_escalation(row), notices=[_notice(notice) for notice in notices])

    async def ack(self, number: int | str, *, actor: str | None = None, note: str | None = None) -> EscalationInfo:
        """Acknowledge an escalation, which closes it; the first answer counts."""
        wanted, who, why = names.number(number, "escalation"), checked_actor(actor), checked_reason(note)
        row = await until_answered(
            lambda _: self._store.ack_escalation(wanted, actor=who, note=why),
            self._deadline_s,
            f"ack escalation {wanted}",
        )
        if row is None:
            raise missing_escalation(wanted)
        return _escalation(row)

    async def snooze(
        self,
        number: int | str,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationInfo:
        """Send no notice of an open escalation until a time."""
        wanted, who = names.number(number, "escalation"), checked_actor(actor)
        if (until is None) == (lasts is None):
            message = f"snooze: expected either until or lasts, got until={shown(until)} and lasts={shown(lasts)}"
            raise InvalidValue(message)
        at = None if until is None else due_time(until)
        delay_ms = None if lasts is None else milliseconds(lasts, "lasts")
        row = await until_answered(
            lambda _: self._store.snooze_escalation(wanted, until=at, delay_ms=delay_ms, actor=who),
            self._deadline_s,
            f"snooze escalation {wanted}",
        )
        if row is None:
            closed = (await self.get(wanted)).escalation
            message = f"snooze escalation {wanted}: it is closed since {closed.closed_at}, so no notice is sent of it"
            raise WrongState(message)
        return _escalation(row)

    async def test(self, policy: str) -> PolicyTest:
        """Send a test notice through every channel of a policy now."""
        known = self._settings.escalations
        named = known.get(policy.lower())
        if named is None:
            names_known = ", ".join(sorted(known)) or "none: only the app and its configuration file name policies"
            message = f"there is no escalation policy {shown(policy)}; known are {names_known}"
            raise EscalationNotFound(message)
        require_channels(self._settings)
        sender = Sender(self._settings.channels)
        try:
            sent = await sender.test(named)
        finally:
            await sender.close()
        channels = [ChannelTest(channel=name, sent=one.error is None, error=one.error) for name, one in sent.items()]
        return PolicyTest(policy=named.name, channels=channels)


def missing_escalation(number: int) -> EscalationNotFound:
    """Say that there is no such escalation."""
    message = f"there is no escalation {number}, or it was closed more than 400 days ago; `escalations list` shows them"
    return EscalationNotFound(message)


def _escalation(row: EscalationRow) -> EscalationInfo:
    details: Any = None if row.details is None else msgspec.json.decode(row.details)
    return EscalationInfo(
        id=str(row.id),
        state=row.standing(datetime.now(UTC)),
        policy=row.policy,
        stage=row.stage,
        source=row.source,
        queue=row.queue,
        kind=row.kind,
        fingerprint=row.fingerprint,
        title=row.title,
        details=details,
        jobs=[public_id.encode(job) for job in row.jobs],
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        notified_at=row.told_at,
        notified=row.said,
        due_at=row.due_at,
        snoozed_until=row.snoozed_until,
        snoozed_by=row.snoozed_by,
        acked_at=row.acked_at,
        acked_by=row.acked_by,
        note=row.note,
        closed_at=row.closed_at,
        dedup_key=dedup_key(row),
    )


def _notice(row: NoticeRow) -> EscalationNotice:
    return EscalationNotice(
        id=str(row.id),
        policy=row.policy,
        channel=row.channel,
        event=row.event,
        state=row.state,
        tries=row.tries,
        created_at=row.created_at,
        next_at=row.next_at if row.state == "pending" else None,
        finished_at=row.ended_at,
        error=row.error,
    )
