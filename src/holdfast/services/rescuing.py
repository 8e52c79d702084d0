"""Giving back what workers held whose lease has ended, and ending what was cancelled and goes on."""

import time
from typing import ClassVar, Protocol

from holdfast.services.service import Round
from holdfast.services.upkeep import report
from holdfast.stores.limits import LimitStore
from holdfast.stores.store import UpkeepStore
from holdfast.stores.values import Rescued

_LEASE_PARTS = 3  # of a lease, one of which is enough for every living worker to renew


class RescuedStore(UpkeepStore, LimitStore, Protocol):
    """What rescuing needs of a store."""


class Rescuing:
    """Rescues; workers find what can run again at their next look, as the announcing service does.

    A store that did not answer us has not answered the workers either: after a failure, a slow answer, and at first,
    everybody gets the time to renew before anybody is judged.
    """

    name: ClassVar[str] = "rescue"

    def __init__(self, store: RescuedStore, *, cancel_grace_s: float, lease_s: float) -> None:
        self._store = store
        self._cancel_grace_ms = round(cancel_grace_s * 1_000)
        self._patience_s = lease_s / _LEASE_PARTS
        self._steady_since: float | None = None  # since when every answer has come in time

    async def run(self, batch: int) -> Round:
        """Rescue one batch."""
        steady_since, self._steady_since = self._steady_since, None
        asked_at = time.monotonic()
        rescued = Rescued(0, (), (), ())
        forced = await self._store.force_cancels(self._cancel_grace_ms, batch)
        if steady_since is not None and asked_at - steady_since >= self._patience_s:
            rescued = await self._store.rescue_jobs(batch)
            report(rescued, "its worker's lease ended")
        await self._store.sweep_limits("", batch, leaks=True)
        now = time.monotonic()
        self._steady_since = now if steady_since is None or now - asked_at > self._patience_s / 2 else steady_since
        moved = len(rescued.requeued) + len(rescued.failed) + len(rescued.cancelled) + len(forced)
        return Round(scanned=moved, moved=moved, has_more=moved >= batch)
