"""Who may come in, and what they did, on SQLite."""

import sqlite3
from contextlib import suppress

import msgspec

from holdfast.errors import StoreMoved
from holdfast.stores.access import AuditFilter, AuditRow, NewAuditEntry, NewToken, TokenKind, TokenRow
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection

_LAST = 9_223_372_036_854_775_807


class SqliteAccess:
    """The verbs of `AccessStore`."""

    connection: Connection

    async def add_token(self, new: NewToken) -> TokenRow:
        fields = msgspec.structs.asdict(new) | {"queues": None if new.queues is None else statements.array(new.queues)}

        def operation(connection: sqlite3.Connection, now: int) -> TokenRow:
            return _token(statements.fetch(connection, "add_token", now=now, **fields)[0])

        return await self.connection.write(operation)

    async def find_token(self, digest: str, *, lasts_ms: int | None = None) -> TokenRow | None:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "find_token", digest=digest, now=now)
        )
        if not found:
            return None
        *row, is_to_be_touched = found[0]
        known = _token(tuple(row))
        if is_to_be_touched:
            with suppress(StoreMoved):  # which people may still look at
                await self.connection.write(
                    lambda connection, now: statements.change(
                        connection, "touch_token", id=known.id, lasts_ms=lasts_ms, now=now
                    )
                )
        return known

    async def use_link(self, digest: str) -> TokenRow | None:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(connection, "use_link", digest=digest, now=now)
        )
        return _token(found[0]) if found else None

    async def has_token(self) -> bool:
        return await self.connection.read(
            lambda connection, now: bool(statements.fetch_value(connection, "has_token", now=now))
        )

    async def list_tokens(self, kind: TokenKind, *, number: int | None = None) -> list[TokenRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "list_tokens", kind=kind, number=number, now=now)
        )
        return [_token(row) for row in found]

    async def revoke_token(self, number: int, *, actor: str) -> TokenRow | None:
        found = await self.connection.write(
            lambda connection, now: statements.fetch(connection, "revoke_token", id=number, actor=actor, now=now)
        )
        return next((_token(row) for row in found if row[0] == number), None)

    async def add_audit(self, entry: NewAuditEntry) -> int:
        fields = msgspec.structs.asdict(entry)

        def operation(connection: sqlite3.Connection, now: int) -> int:
            number: int = statements.fetch_value(connection, "add_audit", now=now, **fields)
            return number

        return await self.connection.write(operation)

    async def list_audit(self, which: AuditFilter, *, limit: int, before: int | None = None) -> list[AuditRow]:
        wanted = msgspec.structs.asdict(which)
        wanted["queues"] = None if which.queues is None else statements.array(which.queues)
        last = _LAST if before is None else before
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_audit", limit=limit, before=last, **wanted)
        )
        names = (*NewAuditEntry.__struct_fields__, "id", "at")
        return [AuditRow(**(dict(zip(names, row, strict=True)) | {"at": rows.moment(row[-1])})) for row in found]

    async def prune_access(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, "prune_access", now=now, limit=limit)
        )


def _token(row: statements.Row) -> TokenRow:
    fields = dict(zip(TokenRow.__struct_fields__, row, strict=True))
    for name in ("created_at", "expires_at", "used_at", "revoked_at"):
        fields[name] = rows.optional_moment(fields[name])
    queues = fields["queues"]
    fields["queues"] = None if queues is None else tuple(msgspec.json.decode(queues, type=list[str]))
    return TokenRow(**fields)
