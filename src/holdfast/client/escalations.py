"""What people ask of escalations."""

from datetime import datetime

import msgspec

from holdfast import names
from holdfast.client.jobs import LARGEST_PAGE, checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.duration import Duration, milliseconds
from holdfast.errors import EscalationNotFound, InvalidValue, WrongState, shown
from holdfast.stores.alarms import AlarmStore, EscalationRow, NoticeRow
from holdfast.tasks.options import due_time


class EscalationState(msgspec.Struct, frozen=True):
    """An escalation, and the messages about it."""

    escalation: EscalationRow
    notices: tuple[NoticeRow, ...]


class EscalationVerbs:
    """The verbs of escalations, on one store."""

    def __init__(self, store: AlarmStore, deadline_s: float) -> None:
        self._alarm_store = store
        self._escalation_deadline_s = deadline_s

    async def escalations(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[EscalationRow]:
        """Read escalations, newest first: all, those that are open, or those that are closed.

        `before` is the last id of the page before.
        """
        names.count(limit, "limit", LARGEST_PAGE)
        named = None if policy is None else names.name(policy, "policy")
        return await until_answered(
            lambda _: self._alarm_store.list_escalations(is_open=is_open, policy=named, limit=limit, before=before),
            self._escalation_deadline_s,
            "escalations",
            changes=False,
        )

    async def escalation(self, number: int) -> EscalationState:
        """Read one escalation and the messages about it."""
        wanted = names.count(number, "escalation", 2**63 - 1)
        found = await until_answered(
            lambda _: self._alarm_store.get_escalation(wanted),
            self._escalation_deadline_s,
            f"escalation {wanted}",
            changes=False,
        )
        if found is None:
            raise missing(wanted)
        return EscalationState(found[0], tuple(found[1]))

    async def ack_escalation(self, number: int, *, actor: str | None = None, note: str | None = None) -> EscalationRow:
        """Say that somebody has taken an escalation over, which closes it; the first answer counts.

        Pagers and webhooks are told. The next failure of the same kind opens another one.
        """
        wanted, who, why = names.count(number, "escalation", 2**63 - 1), checked_actor(actor), checked_reason(note)
        found = await until_answered(
            lambda _: self._alarm_store.ack_escalation(wanted, actor=who, note=why),
            self._escalation_deadline_s,
            f"ack escalation {wanted}",
        )
        if found is None:
            raise missing(wanted)
        return found

    async def snooze_escalation(
        self,
        number: int,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationRow:
        """Say nothing of an open escalation until a time; it goes on counting, and is told again then."""
        wanted, who = names.count(number, "escalation", 2**63 - 1), checked_actor(actor)
        if (until is None) == (lasts is None):
            message = f"snooze: expected either until or lasts, got until={shown(until)} and lasts={shown(lasts)}"
            raise InvalidValue(message)
        at = None if until is None else due_time(until)
        delay_ms = None if lasts is None else milliseconds(lasts, "lasts")
        found = await until_answered(
            lambda _: self._alarm_store.snooze_escalation(wanted, until=at, delay_ms=delay_ms, actor=who),
            self._escalation_deadline_s,
            f"snooze escalation {wanted}",
        )
        if found is None:
            closed = (await self.escalation(wanted)).escalation
            message = f"snooze escalation {wanted}: it is closed since {closed.closed_at}, so nothing is said of it"
            raise WrongState(message)
        return found


def missing(wanted: int) -> EscalationNotFound:
    """Say that there is no such escalation."""
    message = f"there is no escalation {wanted}, or it was closed more than 400 days ago; `escalations list` shows them"
    return EscalationNotFound(message)
