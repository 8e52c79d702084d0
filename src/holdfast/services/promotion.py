"""Queues scheduled jobs when they are due."""

from typing import ClassVar

from holdfast.delivery.delivery import Delivery
from holdfast.services.service import Round
from holdfast.stores.store import UpkeepStore


class PromotionService:
    """Queues and announces jobs that are due, and sleeps until the next one is."""

    name: ClassVar[str] = "promotion"

    def __init__(self, store: UpkeepStore, delivery: Delivery) -> None:
        self._store = store
        self._delivery = delivery

    async def run(self, batch: int) -> Round:
        """Promote one batch."""
        promoted = await self._store.promote_jobs(batch, named=self._delivery.source is not None)
        if promoted.ready:
            self._delivery.announce(promoted.ready)
        elif promoted.jobs:
            self._delivery.hint(promoted.queues)
        return Round(
            scanned=promoted.jobs,
            moved=promoted.jobs,
            lag_ms=promoted.lag_ms,
            next_s=None if promoted.next_due_ms is None else promoted.next_due_ms / 1_000,
            has_more=promoted.jobs >= batch,
        )
