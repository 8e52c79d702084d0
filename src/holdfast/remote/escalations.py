"""Escalations, over HTTP."""

from datetime import datetime

from holdfast.duration import Duration, milliseconds
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.escalation import (
    AckRequest,
    EscalationDetail,
    EscalationInfo,
    EscalationPage,
    PolicyTest,
    PolicyTestRequest,
    SnoozeRequest,
)


class RemoteEscalations(RemoteNamespace):
    """The escalations of a server."""

    path = "escalations"

    async def list(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> EscalationPage:
        """Read escalations, newest first."""
        return await self._get(EscalationPage, open=is_open, policy=policy, limit=limit, before=before)

    async def get(self, number: int | str) -> EscalationDetail:
        """Read one escalation and the notices about it."""
        return await self._get(EscalationDetail, number)

    async def ack(self, number: int | str, *, actor: str | None = None, note: str | None = None) -> EscalationInfo:
        """Acknowledge an escalation, which closes it."""
        return await self._change("POST", EscalationInfo, number, "ack", body=AckRequest(note=note), actor=actor)

    async def snooze(
        self,
        number: int | str,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationInfo:
        """Send no notice of an open escalation until a time."""
        length = lasts if lasts is None or isinstance(lasts, str) else f"{milliseconds(lasts, 'lasts')}ms"
        body = SnoozeRequest(lasts=length, until=until)
        return await self._change("POST", EscalationInfo, number, "snooze", body=body, actor=actor)

    async def test(self, policy: str) -> PolicyTest:
        """Let the server send a test notice through every channel of a policy."""
        return await self._change("POST", PolicyTest, "test", body=PolicyTestRequest(policy=policy))
