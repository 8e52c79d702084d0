"""The audit, as far as it concerns the queues that one caller may see."""

from holdfast import names
from holdfast.client.audit import audit_number, search_audit
from holdfast.resources.audit import AuditPage
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.access import AccessStore, AuditFilter


class ScopedAudit(Scope):
    """The audit of one caller."""

    def __init__(self, store: AccessStore, principal: Principal) -> None:
        super().__init__(principal)
        self._store = store

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
        mine = self._principal.queues
        if queue is not None:
            queues: tuple[str, ...] | None = (self.require(names.name(queue, "queue")),)
        else:
            queues = None if mine is None else tuple(sorted(mine))
        which = AuditFilter(actor=actor, action=action, target=target, queues=queues)
        return await search_audit(self._store, which, limit=limit, before=audit_number(before))
