"""Limits, on PostgreSQL."""

from collections.abc import Sequence

from holdfast.stores.limits import LimitRow, LimitUsage, SlotRow, Swept, UsageCounts, UsedKey, usage_of
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role


class PostgresLimits(Role):
    """The verbs of `LimitStore`."""

    async def define_limits(self, limits: Sequence[LimitRow], gated: Sequence[str]) -> None:
        await self.fetch("define_limits", rows.json_text(list(limits)), list(gated))

    async def list_limits(self) -> list[LimitRow]:
        found = await self.fetch("list_limits")
        return [LimitRow(**(dict(row) | {"kinds": tuple(row["kinds"]), "path": tuple(row["path"])})) for row in found]

    async def limit_usage(self, name: str, key: str | None = None) -> LimitUsage | None:
        return next(iter(await self._usages(name, key)), None)

    async def limit_usages(self) -> list[LimitUsage]:
        return await self._usages(None, None)

    async def sweep_limits(self, after: str, limit: int, *, leaks: bool) -> Swept:
        (row,) = await self.fetch("sweep_limits", after, limit, leaks)
        return Swept(row["freed"], row["released"], row["next_after"])

    async def prune_limits(self, limit: int) -> int:
        return int(await self.fetch_value("prune_limits", limit))

    async def _usages(self, name: str | None, key: str | None) -> list[LimitUsage]:
        found = [UsageCounts(*row) for row in await self.fetch("limit_usage", name, key)]
        held = await self.fetch("slot_holders", name, key) if found else []
        holders = [(row[0], SlotRow(*row[1:])) for row in held]
        used = [UsedKey(*row) for row in await self.fetch("limit_buckets", name, key)] if found else []
        return [usage_of(counts, key, holders, used) for counts in found]
