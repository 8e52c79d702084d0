"""Announces jobs again whose ids were lost on the way, or that another process has made ready.

Bounded, so that jobs that honestly wait are not announced over and over. A job is announced again only some seconds
after it was announced, and only if its id is lost. A delivery that knows its ids is asked for those of the jobs that
come first; of one that can only count them, a lane is announced again while it holds fewer ids than the lane has jobs.
"""

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from holdfast.delivery.delivery import Delivery, Ready
from holdfast.services.service import Round
from holdfast.stores.cluster import AnnounceStore

UNANNOUNCED_MS = 5_000
LOOKED_AT = 200  # first jobs of a lane, although the delivery holds as many ids as there are jobs: some may be stale
REST_S = 1.0  # after a batch: until it is known to be pushed it looks lost, and what is not pushed wakes this service


@runtime_checkable
class Measured(Protocol):
    """A delivery that knows how many ids it holds."""

    @property
    def push_failures(self) -> int:
        """How many batches were given up."""

    async def lengths(self, waiting: Mapping[tuple[str, int], int], /) -> Mapping[tuple[str, int], int]:
        """Count the ids of lanes that have so many jobs; one that cannot be counted now is left out."""


@runtime_checkable
class Searched(Protocol):
    """A delivery that knows which ids it holds."""

    async def missing(self, jobs: Sequence[Ready], /) -> Sequence[Ready] | None:
        """Find the jobs whose ids are not there, of those that can be looked for now; None if none ever can."""


class AnnouncementsService:
    """Announces what the delivery does not hold."""

    name: ClassVar[str] = "announcements"

    def __init__(self, store: AnnounceStore, delivery: Delivery, measured: Measured) -> None:
        self._store = store
        self._delivery = delivery
        self._measured = measured
        self._failures = 0
        self._rests_until = 0.0

    async def run(self, batch: int) -> Round:
        """Announce one batch."""
        if (rest_s := self._rests_until - time.monotonic()) > 0:
            return Round(next_s=rest_s)
        waiting = {(queue, priority): jobs for queue, priority, jobs in await self._store.ready_lanes()}
        held = await self._measured.lengths(waiting) if waiting else {}
        left = batch
        for lane, jobs in waiting.items():
            if lane in held and left > 0:
                lost = await self._lost(lane, jobs - held[lane], left)
                self._delivery.announce(lost)
                left -= len(lost)
        failures, self._failures = self._measured.push_failures - self._failures, self._measured.push_failures
        if left == batch:
            return Round(scanned=len(waiting), failures=failures)
        self._rests_until = time.monotonic() + REST_S
        return Round(scanned=len(waiting), moved=batch - left, failures=failures, next_s=REST_S)

    async def _lost(self, lane: tuple[str, int], lacking: int, most: int) -> Sequence[Ready]:
        """Find jobs of a lane whose ids are lost, as far as that can be known."""
        searched = self._measured if isinstance(self._measured, Searched) else None
        wanted = min(lacking if searched is None else max(lacking, LOOKED_AT), most)
        old = await self._store.unannounced_jobs(*lane, UNANNOUNCED_MS, wanted) if wanted > 0 else []
        # guard: lost-ids, without: lost = None
        lost = await searched.missing(old) if searched is not None and old else None
        return old[: max(lacking, 0)] if lost is None else lost
