"""The sweeps that every worker instance makes, leader or not: rescue, forced cancellations, overdue schedules.

All of them are compare-and-set in the store, so that any number of instances may make them at once. They are why
nothing but promptness hangs on the leader.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from holdfast import failure, public_id
from holdfast import transitions as ends
from holdfast.delivery.delivery import Delivery
from holdfast.errors import HoldfastError
from holdfast.services.schedules import FiredStore, SchedulesService
from holdfast.stores.store import LeaseStore, UpkeepStore
from holdfast.stores.values import Rescued, WorkerRow
from holdfast.transitions import Transition

_logger = logging.getLogger("holdfast")

SWEEP_S = 1.0
OVERDUE_S = 2.0  # of a schedule, before others than the leader fire it
_OVERDUE_FIRES = 100
_BATCH = 500
_NAMED = 10
NEVER = datetime.fromtimestamp(0, UTC)  # no lease has ended before it


class SweptStore(UpkeepStore, LeaseStore, FiredStore, Protocol):
    """What the sweeps need of a store."""


class Vanished(Protocol):
    """Who can tell that a worker's process has ended, before its lease does."""

    def is_gone(self, row: WorkerRow) -> bool:
        """Whether the process has certainly ended."""

    def crashed(self, row: WorkerRow) -> list[tuple[int, int]] | None:
        """The claims that may have brought it down; None when nobody knows what had begun."""

    def forget(self, row: WorkerRow) -> None:
        """Remove what the process left behind."""


class Sweeps:
    """The sweeps of one instance."""

    def __init__(
        self,
        store: SweptStore,
        delivery: Delivery,
        vanished: Vanished,
        *,
        cancel_grace_s: float,
        may_judge: Callable[[], bool],
    ) -> None:
        self._store = store
        self._vanished = vanished
        self._cancel_grace_ms = round(cancel_grace_s * 1_000)
        self._may_judge = may_judge
        self._firing = SchedulesService(store, delivery, overdue_s=OVERDUE_S)
        self._looked_at = NEVER
        self._is_failing = False

    async def serve(self) -> None:
        """Sweep once a second."""
        while True:
            await self.sweep()
            await asyncio.sleep(SWEEP_S * random.uniform(0.9, 1.1))

    async def sweep(self) -> None:
        """Sweep once; what fails is tried again by the next sweep."""
        try:
            await self.release_vanished()
            # A process may fall asleep between the question and the sweep: what has ended since is left alone.
            # guard: sweep-judgement, without: before, self._looked_at = self._looked_at, NEVER
            before, self._looked_at = self._looked_at if self._may_judge() else NEVER, NEVER
            rescued = await self._store.rescue_jobs(_BATCH, before=before)
            self._looked_at = rescued.looked_at or NEVER
            report(rescued, "its worker's lease ended")
            await self._store.force_cancels(self._cancel_grace_ms, _BATCH)
            await self._firing.run(_OVERDUE_FIRES)
        except HoldfastError as error:
            if not self._is_failing:
                _logger.warning("a sweep failed, the next one tries again: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    async def release_vanished(self) -> None:
        """Take back at once what workers hold whose processes on this host have ended."""
        for row in await self._store.list_workers():
            if row.dead_at is not None or not self._vanished.is_gone(row):
                continue
            crashed = self._vanished.crashed(row)
            if crashed is None:  # what had begun is not known: all of it is rescued as crashed when the lease ends
                continue
            why = f"worker {row.id} (process {row.info.pid}) has ended"
            report(await self._store.release_worker(row.id, crashes(crashed, why)), why)
            self._vanished.forget(row)


def crashes(claims: list[tuple[int, int]], why: str) -> list[Transition]:
    """Let claims end as crashes; of one job, whose lost claim may still run beside its next one, only the last."""
    last = dict(sorted(claims))
    return [ends.crashed(job_id, claim, failure.from_text("WorkerLost", why)) for job_id, claim in last.items()]


def report(rescued: Rescued, why: str) -> None:
    """Log which jobs were taken from a worker."""
    if rescued.requeued:
        _logger.warning("%d jobs were requeued, because %s: %s", len(rescued.requeued), why, _named(rescued.requeued))
    report_failed(rescued.failed, why)


def report_failed(ids: Sequence[int], why: str) -> None:
    """Log which jobs the loss of a worker has ended for good."""
    if ids:
        _logger.error("%d jobs have failed, because %s: %s", len(ids), why, _named(ids))


def _named(ids: Sequence[int]) -> str:
    return ", ".join(public_id.encode(job_id) for job_id in ids[:_NAMED])
