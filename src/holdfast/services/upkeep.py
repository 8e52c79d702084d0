"""The sweeps that every worker instance makes: rescue, forced cancellations, retention.

All of them are compare-and-set in the store, so that any number of instances may make them at once.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

from holdfast import failure, public_id
from holdfast import transitions as ends
from holdfast.errors import HoldfastError
from holdfast.stores.store import DeliveryStore, EventStore, LeaseStore, UpkeepStore
from holdfast.stores.values import Rescued, WorkerRow
from holdfast.transitions import Transition

_logger = logging.getLogger("holdfast")

SWEEP_S = 1.0
_RETENTION_S = 60.0
_BATCH = 500
_BATCHES = 10  # of what has expired, in one sweep
_NAMED = 10


class SweptStore(UpkeepStore, LeaseStore, EventStore, DeliveryStore, Protocol):
    """What the sweeps need of a store."""


class Vanished(Protocol):
    """Who can tell that a worker's process has ended, before its lease does."""

    def is_gone(self, row: WorkerRow) -> bool:
        """Whether the process has certainly ended."""

    def crashed(self, row: WorkerRow) -> list[tuple[int, int]] | None:
        """The claims that may have brought it down; None when nobody knows what had begun."""

    def forget(self, row: WorkerRow) -> None:
        """Remove what the process left behind."""


class Upkeep:
    """The sweeps of one instance."""

    def __init__(
        self, store: SweptStore, vanished: Vanished, *, cancel_grace_s: float, may_judge: Callable[[], bool]
    ) -> None:
        self._store = store
        self._vanished = vanished
        self._cancel_grace_ms = round(cancel_grace_s * 1_000)
        self._may_judge = may_judge
        self._retain_at = time.monotonic() + random.uniform(0, _RETENTION_S)
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
            if self._may_judge():
                _report(await self._store.rescue_jobs(_BATCH), "its worker's lease ended")
            await self._store.force_cancels(self._cancel_grace_ms, _BATCH)
            if time.monotonic() >= self._retain_at:
                self._retain_at = time.monotonic() + _RETENTION_S * random.uniform(0.75, 1.25)
                if not await self._deleted_all():
                    self._retain_at = time.monotonic()  # the next sweep goes on, or more would end than is ever deleted
        except HoldfastError as error:
            if not self._is_failing:
                _logger.warning("upkeep could not be done, the next sweep tries again: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    async def _deleted_all(self) -> bool:
        """Delete what has expired, in short commits and not for long; whether nothing is left."""
        for _ in range(_BATCHES):
            kept = await self._store.keep_history(_BATCH)
            deleted = [
                kept.deleted,
                await self._store.prune_keys(_BATCH),
                await self._store.prune_events(_BATCH),
                await self._store.prune_deliveries(_BATCH),
            ]
            if max(deleted) < _BATCH:
                return True
        return False

    async def release_vanished(self) -> None:
        """Take back at once what workers hold whose processes on this host have ended."""
        for row in await self._store.list_workers():
            if row.dead_at is not None or not self._vanished.is_gone(row):
                continue
            crashed = self._vanished.crashed(row)
            if crashed is None:  # what had begun is not known: all of it is rescued as crashed when the lease ends
                continue
            why = f"worker {row.id} (process {row.info.pid}) has ended"
            _report(await self._store.release_worker(row.id, crashes(crashed, why)), why)
            self._vanished.forget(row)


def crashes(claims: list[tuple[int, int]], why: str) -> list[Transition]:
    """Let claims end as crashes; of one job, whose lost claim may still run beside its next one, only the last."""
    last = dict(sorted(claims))
    return [ends.crashed(job_id, claim, failure.from_text("WorkerLost", why)) for job_id, claim in last.items()]


def _report(rescued: Rescued, why: str) -> None:
    for verb, ids in (("were given back", rescued.requeued), ("have failed", rescued.failed)):
        if ids:
            named = ", ".join(public_id.encode(job_id) for job_id in ids[:_NAMED])
            _logger.warning("%d jobs %s, because %s: %s", len(ids), verb, why, named)
