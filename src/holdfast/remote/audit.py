"""The audit, over HTTP."""

from typing import Any

from holdfast.remote.link import Link
from holdfast.resources.audit import AuditPage


class RemoteAudit:
    """The audit of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        queue: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> AuditPage:
        """Read what was done, the latest first; all conditions must hold."""
        which: dict[str, Any] = {"actor": actor, "action": action, "target": target, "queue": queue}
        return await self._link.ask(AuditPage, "GET", "audit", **which, limit=limit, before=before)
