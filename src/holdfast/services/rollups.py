"""Adds up old counts: by the minute, then by the half hour, then by the hour, then by the day."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.store import UpkeepStore


class RollupsService:
    """Adds up the rollups."""

    name: ClassVar[str] = "rollups"

    def __init__(self, store: UpkeepStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Add up one batch of groups."""
        folded = await self._store.fold_rollups(batch)
        return Round(scanned=folded, moved=folded, has_more=folded > 0)
