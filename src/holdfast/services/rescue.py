"""Requeues the jobs of workers whose lease has ended, and ends cancelled jobs that do not stop."""

import time
from datetime import datetime
from typing import ClassVar, NamedTuple, Protocol

from holdfast.services.service import Round
from holdfast.services.sweeps import NEVER, report
from holdfast.stores.limits import LimitStore
from holdfast.stores.store import UpkeepStore
from holdfast.stores.values import Rescued

_LEASE_PARTS = 3  # of a lease, one of which is enough for every living worker to renew
_GAP = 1.5  # parts between two looks: after a longer one this process, and so maybe everybody, has slept


class RescuedStore(UpkeepStore, LimitStore, Protocol):
    """What the rescue needs of a store."""


class _Look(NamedTuple):
    """A look that was answered in time: when, since when all have been, and when by the store's clock."""

    at: float
    steady_since: float
    looked_at: datetime


class RescueService:
    """Rescues jobs; workers find what can run again at their next look, as the service `announcements` does.

    A store that did not answer us has not answered the workers either, and where this process slept, they may have
    slept too: after a failure, a slow answer, a gap, and at first, everybody gets the time to renew before anybody is
    judged. Even then only leases count that had ended at the look before.
    """

    name: ClassVar[str] = "rescue"

    def __init__(self, store: RescuedStore, *, cancel_grace_s: float, lease_s: float) -> None:
        self._store = store
        self._cancel_grace_ms = round(cancel_grace_s * 1_000)
        self._patience_s = lease_s / _LEASE_PARTS
        self._last: _Look | None = None

    async def run(self, batch: int) -> Round:
        """Rescue one batch."""
        began, last, self._last = time.monotonic(), self._last, None
        if last is not None and began - last.at > _GAP * self._patience_s:  # guard: rescue-gap
            last = None
        is_steady = last is not None and began - last.steady_since >= self._patience_s
        forced = await self._store.force_cancels(self._cancel_grace_ms, batch)
        rescued = await self._store.rescue_jobs(batch, before=last.looked_at if last and is_steady else NEVER)
        report(rescued, "its worker's lease ended")
        await self._store.sweep_limits("", batch, leaks=True)
        self._keep(rescued, began, last)
        moved = len(rescued.requeued) + len(rescued.failed) + len(rescued.cancelled) + len(forced)
        next_s = None if is_steady else self._patience_s
        return Round(scanned=moved, moved=moved, next_s=next_s, has_more=moved >= batch)

    def _keep(self, rescued: Rescued, began: float, last: _Look | None) -> None:
        now = time.monotonic()
        # guard: rescue-slow-look, without: if rescued.looked_at is not None:
        if rescued.looked_at is not None and now - began <= self._patience_s / 2:
            self._last = _Look(began, now if last is None else last.steady_since, rescued.looked_at)
