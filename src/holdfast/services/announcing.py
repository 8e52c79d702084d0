"""Announcing again: jobs whose ids were lost on the way, or that somebody else has made ready.

Bounded, so that jobs that honestly wait are not announced over and over: a lane is looked at only while the delivery
holds fewer ids of it than it has jobs, and a job again only some seconds after it was announced.
"""

import time
from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

from holdfast.delivery.delivery import Delivery
from holdfast.services.service import Round
from holdfast.stores.cluster import AnnounceStore

UNANNOUNCED_MS = 5_000
REST_S = 1.0  # after a batch: until it is known to be pushed it looks lost, and what is not pushed wakes this service


@runtime_checkable
class Measured(Protocol):
    """A delivery that knows how many ids it holds."""

    @property
    def push_failures(self) -> int:
        """How many batches were given up."""

    async def lengths(self, waiting: Mapping[tuple[str, int], int], /) -> Mapping[tuple[str, int], int]:
        """Count the ids of lanes that have so many jobs; one that cannot be counted now is left out."""


class Announcing:
    """Announces what the delivery does not hold."""

    name: ClassVar[str] = "announce"

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
            if lane not in held or held[lane] >= jobs or left < 1:
                continue
            missing = min(jobs - held[lane], left)
            ready = await self._store.unannounced_jobs(*lane, UNANNOUNCED_MS, missing)
            self._delivery.announce(ready)
            left -= len(ready)
        failures, self._failures = self._measured.push_failures - self._failures, self._measured.push_failures
        if left == batch:
            return Round(scanned=len(waiting), failures=failures)
        self._rests_until = time.monotonic() + REST_S
        return Round(scanned=len(waiting), moved=batch - left, failures=failures, next_s=REST_S)
