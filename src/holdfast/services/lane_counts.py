"""Counts how long the lanes are, so that no reader has to."""

from typing import ClassVar

from holdfast.services.service import Round
from holdfast.stores.store import UpkeepStore


class LaneCountsService:
    """Counts the jobs of each lane."""

    name: ClassVar[str] = "lane_counts"

    def __init__(self, store: UpkeepStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:  # noqa: ARG002 - every lane is measured, and each only to a bound
        """Measure every lane."""
        lanes = await self._store.measure_lanes()
        return Round(scanned=len(lanes), moved=len(lanes))
