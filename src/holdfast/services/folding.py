"""Folding counts: what is old is kept by the minute, then by the half hour, then by the hour, then by the day."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.store import UpkeepStore


class Folding:
    """Folds the roll-ups."""

    name: ClassVar[str] = "fold"

    def __init__(self, store: UpkeepStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Fold one batch of groups."""
        folded = await self._store.fold_rollups(batch)
        return Round(scanned=folded, moved=folded, has_more=folded > 0)
