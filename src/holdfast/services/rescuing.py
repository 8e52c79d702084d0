"""Giving back what workers held whose lease has ended, and ending what was cancelled and goes on."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.services.upkeep import report
from holdfast.stores.store import UpkeepStore


class Rescuing:
    """Rescues; workers find what can run again at their next look, as the announcing service does."""

    name: ClassVar[str] = "rescue"

    def __init__(self, store: UpkeepStore, cancel_grace_s: float) -> None:
        self._store = store
        self._cancel_grace_ms = round(cancel_grace_s * 1_000)

    async def run(self, batch: int) -> Round:
        """Rescue one batch."""
        rescued = await self._store.rescue_jobs(batch)
        report(rescued, "its worker's lease ended")
        forced = await self._store.force_cancels(self._cancel_grace_ms, batch)
        moved = len(rescued.requeued) + len(rescued.failed) + len(rescued.cancelled) + len(forced)
        return Round(scanned=moved, moved=moved, has_more=moved >= batch)
