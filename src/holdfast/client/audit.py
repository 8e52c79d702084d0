"""The audit: who did what, or tried to."""

from typing import Protocol

import msgspec

from holdfast.client.repeat import until_answered
from holdfast.errors import InvalidValue, shown
from holdfast.resources.audit import AuditEntry, AuditPage
from holdfast.stores.access import AccessStore, AuditFilter, AuditRow

LOOKED_AT = 20_000
_LARGEST_PAGE = 1_000
_LARGEST = 2**63 - 1


class Audit(Protocol):
    """What can be asked of the audit."""

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
        """Read what was done, the latest first; all conditions must hold.

        One call looks at 20,000 rows: a page may hold fewer than `limit`, also when there is a next one.
        """


class LocalAudit:
    """The audit of one store."""

    def __init__(self, store: AccessStore, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

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
        queues = None if queue is None else (queue,)
        which = AuditFilter(actor=actor, action=action, target=target, queues=queues)
        number = audit_number(before)
        return await until_answered(
            lambda _: search_audit(self._store, which, limit=min(limit, _LARGEST_PAGE), before=number),
            self._deadline_s,
            "audit",
            changes=False,
        )


async def search_audit(
    store: AccessStore, which: AuditFilter, *, limit: int, before: int | None, looked_at: int = LOOKED_AT
) -> AuditPage:
    """Find entries older than `before`.

    No index knows who did what, so one search looks at so many rows and says how far it came.
    """
    latest = await store.list_audit(AuditFilter(), limit=1, before=before)
    if not latest:
        return AuditPage(entries=[])
    first = max(latest[0].id - looked_at + 1, 0)
    rows = await store.list_audit(msgspec.structs.replace(which, first=first), limit=limit + 1, before=before)
    entries = [audit_entry(row) for row in rows[:limit]]
    if len(rows) > limit:
        return AuditPage(entries=entries, next=str(rows[limit - 1].id))
    older = await store.list_audit(AuditFilter(), limit=1, before=first)
    return AuditPage(entries=entries, next=str(first), searched_to=older[0].at) if older else AuditPage(entries=entries)


def audit_entry(row: AuditRow) -> AuditEntry:
    """Put together what is known of one entry."""
    return AuditEntry(
        id=str(row.id),
        at=row.at,
        actor=row.actor,
        role=row.role,
        action=row.action,
        target=row.target,
        queue=row.queue,
        status=row.status,
        detail=msgspec.json.decode(row.detail),
        request=row.request,
    )


def audit_number(before: int | str | None) -> int | None:
    """Read where a page begins."""
    text = "" if before is None else str(before)
    if before is None or (text.isascii() and text.isdecimal() and int(text) <= _LARGEST):
        return None if before is None else int(text)
    message = f"before: expected the `next` of a page, got {shown(before)}"
    raise InvalidValue(message)
