"""Who may come in, and what they did, on PostgreSQL."""

from contextlib import suppress
from typing import Any

from holdfast.errors import StoreMoved
from holdfast.stores.access import AuditFilter, AuditRow, NewAuditEntry, NewToken, TokenKind, TokenRow
from holdfast.stores.postgres.role import Role

_LAST = 9_223_372_036_854_775_807


class PostgresAccess(Role):
    """The verbs of `AccessStore`."""

    async def add_token(self, new: NewToken) -> TokenRow:
        queues = None if new.queues is None else list(new.queues)
        (row,) = await self.fetch(
            "add_token",
            new.kind,
            new.name,
            new.digest,
            new.hint,
            new.role,
            queues,
            new.created_by,
            new.lasts_ms,
            new.parent,
        )
        return _token(row)

    async def find_token(self, digest: str, *, lasts_ms: int | None = None) -> TokenRow | None:
        rows = await self.fetch("find_token", digest)
        if not rows:
            return None
        found = dict(rows[0])
        if found.pop("is_to_be_touched"):
            with suppress(StoreMoved):  # which people may still look at
                await self.fetch("touch_token", found["id"], lasts_ms)
        return _token(found)

    async def use_link(self, digest: str) -> TokenRow | None:
        rows = await self.fetch("use_link", digest)
        return _token(rows[0]) if rows else None

    async def has_token(self) -> bool:
        return bool(await self.fetch_value("has_token"))

    async def list_tokens(self, kind: TokenKind, *, number: int | None = None) -> list[TokenRow]:
        return [_token(row) for row in await self.fetch("list_tokens", kind, number)]

    async def revoke_token(self, number: int, *, actor: str) -> TokenRow | None:
        rows = await self.fetch("revoke_token", number, actor)
        return _token(rows[0]) if rows else None

    async def add_audit(self, entry: NewAuditEntry) -> int:
        facts = (
            entry.actor,
            entry.role,
            entry.action,
            entry.target,
            entry.queue,
            entry.status,
            entry.detail,
            entry.request,
        )
        number: int = await self.fetch_value("add_audit", *facts)
        return number

    async def list_audit(self, which: AuditFilter, *, limit: int, before: int | None = None) -> list[AuditRow]:
        queues = None if which.queues is None else list(which.queues)
        wanted = (which.actor, which.action, which.target, queues, which.first)
        rows = await self.fetch("list_audit", limit, _LAST if before is None else before, *wanted)
        return [AuditRow(**dict(row)) for row in rows]

    async def prune_access(self, limit: int) -> int:
        count: int = await self.fetch_value("prune_access", limit)
        return count


def _token(row: Any) -> TokenRow:
    fields = dict(row)
    return TokenRow(**(fields | {"queues": None if fields["queues"] is None else tuple(fields["queues"])}))
