"""Locks, on PostgreSQL."""

from collections.abc import Sequence

from holdfast.stores.cluster import LockAnswer, LockRequest, LockRow
from holdfast.stores.postgres.role import Role


class PostgresLocks(Role):
    """The verbs of `LockStore`."""

    async def take_lock(self, request: LockRequest, *, lasts_ms: int, waits_ms: int) -> LockAnswer:
        (row,) = await self.fetch(
            "take_lock",
            request.name,
            request.owner,
            request.context,
            request.place,
            request.worker,
            request.job_id,
            request.claim,
            lasts_ms,
            waits_ms,
        )
        return LockAnswer(row["token"], row["since"], row["ticket"], bool(row["is_cycle"]))

    async def renew_locks(self, owners: Sequence[str], lasts_ms: int) -> frozenset[str]:
        return frozenset(row[0] for row in await self.fetch("renew_locks", list(owners), lasts_ms))

    async def renew_tickets(self, owners: Sequence[str], waits_ms: int) -> frozenset[str]:
        return frozenset(row[0] for row in await self.fetch("renew_tickets", list(owners), waits_ms))

    async def release_lock(self, name: str, owner: str) -> bool:
        return bool(await self.fetch_value("release_lock", name, owner))

    async def break_lock(self, name: str, token: int) -> bool:
        return bool(await self.fetch("break_lock", name, token))

    async def free_locks(self, job_id: int, claim: int) -> int:
        return int(await self.fetch_value("free_locks", job_id, claim))

    async def list_locks(self, limit: int) -> list[LockRow]:
        return [LockRow(*row) for row in await self.fetch("list_locks", limit)]

    async def prune_locks(self, limit: int) -> int:
        return int(await self.fetch_value("prune_locks", limit))
