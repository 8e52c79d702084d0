"""Locks, on SQLite."""

import sqlite3
from collections.abc import Sequence

import msgspec

from holdfast.stores.cluster import LockAnswer, LockRequest, LockRow
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection


class SqliteLocks:
    """The verbs of `LockStore`."""

    connection: Connection

    async def take_lock(self, request: LockRequest, *, lasts_ms: int, waits_ms: int) -> LockAnswer:
        fields = msgspec.structs.asdict(request)

        def operation(connection: sqlite3.Connection, now: int) -> LockAnswer:
            ticket = int(statements.fetch_value(connection, "enter_ticket", now=now, waits_ms=waits_ms, **fields))
            taken = statements.fetch(connection, "take_lock", now=now, owner=request.owner, lasts_ms=lasts_ms)
            if taken:
                ((token, since),) = taken
                return LockAnswer(token, rows.moment(since), None)
            is_cycle = statements.fetch_value(
                connection, "is_lock_cycle", now=now, name=request.name, context=request.context, ticket=ticket
            )
            return LockAnswer(None, None, ticket, bool(is_cycle))

        return await self.connection.write(operation)

    async def renew_locks(self, owners: Sequence[str], lasts_ms: int) -> frozenset[str]:
        named = statements.array(owners)
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "renew_locks", now=now, owners=named, lasts_ms=lasts_ms
            )
        )
        return frozenset(row[0] for row in found)

    async def renew_tickets(self, owners: Sequence[str], waits_ms: int) -> frozenset[str]:
        named = statements.array(owners)
        found = await self.connection.write(
            lambda connection, now: statements.fetch(
                connection, "renew_tickets", now=now, owners=named, waits_ms=waits_ms
            )
        )
        return frozenset(row[0] for row in found)

    async def release_lock(self, name: str, owner: str) -> bool:
        others = await self.connection.write(
            lambda connection, now: statements.fetch_value(connection, "release_lock", now=now, name=name, owner=owner)
        )
        return bool(others)

    async def break_lock(self, name: str, token: int) -> bool:
        taken = await self.connection.write(
            lambda connection, _: statements.change(connection, "break_lock", name=name, token=token)
        )
        return bool(taken)

    async def free_locks(self, job_id: int, claim: int) -> int:
        def operation(connection: sqlite3.Connection, _now: int) -> int:
            waited = statements.change(connection, "free_locks", job_id=job_id, claim=claim)
            return waited + statements.change(connection, "free_held_locks", job_id=job_id, claim=claim)

        return await self.connection.write(operation)

    async def list_locks(self, limit: int) -> list[LockRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "list_locks", now=now, limit=limit)
        )
        return [
            LockRow(name, token, place, worker, job_id, claim, rows.moment(since), rows.moment(until), waiters)
            for name, token, place, worker, job_id, claim, since, until, waiters in found
        ]

    async def prune_locks(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            waited = statements.change(connection, "prune_tickets", now=now, limit=limit)
            return waited + statements.change(connection, "prune_locks", now=now, limit=limit)

        return await self.connection.write(operation)
