"""The audit, over HTTP."""

from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.audit import AuditPage


class RemoteAudit(RemoteNamespace):
    """The audit of a server."""

    path = "audit"

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
        return await self._get(
            AuditPage, actor=actor, action=action, target=target, queue=queue, limit=limit, before=before
        )
