"""Folding old roll-ups, on PostgreSQL."""

from holdfast.stores.postgres.role import Role


class PostgresFolding(Role):
    """The verb of `UpkeepStore` that folds."""

    async def fold_rollups(self, limit: int) -> int:
        return int(await self.fetch_value("fold_rollups", limit))
