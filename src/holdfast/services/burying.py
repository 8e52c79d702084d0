"""Folding failures into the groups of dead letters."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.failures import FailureStore


class Burying:
    """Counts what has failed."""

    name: ClassVar[str] = "dead_letters"

    def __init__(self, store: FailureStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Fold one batch of failures."""
        folded = await self._store.fold_failures(batch)
        return Round(scanned=folded, moved=folded, has_more=folded >= batch)
