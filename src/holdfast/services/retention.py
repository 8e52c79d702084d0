"""Deletes what has been kept long enough, and makes the partitions of the weeks to come."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.retention import RetainedStore, prune


class RetentionService:
    """Deletes in short commits."""

    name: ClassVar[str] = "retention"

    def __init__(self, store: RetainedStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Delete one batch of everything."""
        pruned = await prune(self._store, batch)
        return Round(
            scanned=pruned.rows,
            moved=pruned.rows + pruned.partitions + pruned.made,
            has_more=pruned.has_more,
        )
