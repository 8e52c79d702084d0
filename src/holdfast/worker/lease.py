"""Staying alive for the others: renewing leases, and trusting them no longer than they hold.

A renewal counts from the moment it was sent, by this machine's monotonic clock: the store counts from when it came in,
so trust always ends before the lease does. A moment before, work stops by itself.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping

from holdfast import moments
from holdfast.errors import HoldfastError, StoreMoved
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import Renewal

_logger = logging.getLogger("holdfast")

RENEWALS = 3  # within a lease
MARGIN = 5  # a fifth of the lease is kept back
_LONGEST_PAUSE_S = 0.5
_LONGEST_INTERVAL_S = 5.0  # the answer also carries cancellations, which people wait for


class Lease:
    """The lease of one instance: all its workers are renewed together, and each tells how much memory it has."""

    def __init__(
        self,
        store: LeaseStore,
        lease_s: float,
        workers: Callable[[], Mapping[int, int | None]],
        renewed: Callable[[Renewal, int], None],
    ) -> None:
        self.is_moved = False  # the jobs are in another store now, and nothing is left to do here
        self.lease_s = lease_s
        self.renewed_at = time.monotonic_ns()  # when the last confirmed renewal was sent
        self.steady_since = time.monotonic_ns()  # since when renewals have come without a gap
        self._store = store
        self._workers = workers
        self._renewed = renewed
        self._interval_s = min(lease_s / RENEWALS, _LONGEST_INTERVAL_S)
        self._now = asyncio.Event()

    @property
    def is_trusted(self) -> bool:
        """Whether nobody can have declared this instance dead."""
        return trusted_for(self.renewed_at, self.lease_s) > 0

    @property
    def is_steady(self) -> bool:
        """Whether this instance has been renewing for an interval: who slept must not judge others."""
        interval = int(self.lease_s / RENEWALS * 1e9)
        now = time.monotonic_ns()
        return now - self.renewed_at < 2 * interval and now - self.steady_since >= interval

    def renew_soon(self) -> None:
        """Renew now, and not only when it is due."""
        self._now.set()

    async def serve(self) -> None:
        """Renew, a third of the lease apart or more often; while that fails, again and again."""
        pause = self._interval_s
        is_failing = False
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._now.wait()
            except TimeoutError:
                pass
            self._now.clear()
            try:
                await self.renew()
            except StoreMoved as error:
                if not self.is_moved:
                    _logger.error("this worker leaves: %s", error)  # noqa: TRY400 - the sentence says all there is
                self.is_moved = True
            except HoldfastError as error:
                if not is_failing:
                    _logger.warning("the lease could not be renewed, trying again: %s", error)
                is_failing = True
                pause = min(self.lease_s / 10, _LONGEST_PAUSE_S) * random.uniform(0.5, 1)
            else:
                if is_failing:
                    _logger.info("the lease is renewed again")
                is_failing = False
                pause = self._interval_s

    async def renew(self) -> None:
        """Renew once; the answer also tells what the store shows for these workers."""
        # Without workers too: only an answer shows that the store is there, and that this instance may judge others.
        memory = self._workers()
        sent = time.monotonic_ns()
        renewal = await self._store.renew_workers(list(memory), round(self.lease_s * 1_000), memory)
        self._confirm(sent)
        self._renewed(renewal, sent)
        moments.reach("renewed", workers=list(memory))

    def _confirm(self, sent: int) -> None:
        now = time.monotonic_ns()  # and not when it was asked: the others are answered no sooner
        if now - self.renewed_at > self.lease_s / 2 * 1e9:
            self.steady_since = now
        self.renewed_at = sent  # guard: renewal-from-sending, without: self.renewed_at = now


def trusted_for(renewed_at: int, lease_s: float) -> float:
    """For how many seconds a renewal sent at a moment can still be trusted."""
    return lease_s - lease_s / MARGIN - (time.monotonic_ns() - renewed_at) / 1e9
