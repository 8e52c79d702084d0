"""Puts failed jobs into groups of dead letters."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.failures import FailureStore


class DeadLettersService:
    """Adds failed jobs to their groups."""

    name: ClassVar[str] = "dead_letters"

    def __init__(self, store: FailureStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Add one batch of failed jobs."""
        folded = await self._store.fold_failures(batch)
        return Round(scanned=folded, moved=folded, has_more=folded >= batch)
