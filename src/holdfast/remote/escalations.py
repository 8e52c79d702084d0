"""Escalations, over HTTP."""

from datetime import datetime

from holdfast.duration import Duration, milliseconds
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.escalation import (
    AckRequest,
    EscalationDetail,
    EscalationInfo,
    EscalationPage,
    PolicyTest,
    PolicyTestRequest,
    SnoozeRequest,
)


class RemoteEscalations:
    """The escalations of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> EscalationPage:
        """Read escalations, newest first."""
        return await self._link.ask(
            EscalationPage, "GET", "escalations", open=is_open, policy=policy, limit=limit, before=before
        )

    async def get(self, number: int | str) -> EscalationDetail:
        """Read one escalation and the notices about it."""
        return await self._link.ask(EscalationDetail, "GET", "escalations", str(number))

    async def ack(self, number: int | str, *, actor: str | None = None, note: str | None = None) -> EscalationInfo:
        """Acknowledge an escalation, which closes it."""
        refuse_actor(actor)
        return await self._link.ask(
            EscalationInfo, "POST", "escalations", str(number), "ack", body=AckRequest(note=note)
        )

    async def snooze(
        self,
        number: int | str,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationInfo:
        """Send no notice of an open escalation until a time."""
        refuse_actor(actor)
        length = lasts if lasts is None or isinstance(lasts, str) else f"{milliseconds(lasts, 'lasts')}ms"
        body = SnoozeRequest(lasts=length, until=until)
        return await self._link.ask(EscalationInfo, "POST", "escalations", str(number), "snooze", body=body)

    async def test(self, policy: str) -> PolicyTest:
        """Let the server send a test notice through every channel of a policy."""
        return await self._link.ask(PolicyTest, "POST", "escalations", "test", body=PolicyTestRequest(policy=policy))
