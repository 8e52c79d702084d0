"""Working on bulk runs: a batch at a time, each in one commit with the place where the next one begins.

A process that dies between two batches has lost nothing, and two that work on the same one do it once.
"""

import time
from collections.abc import Iterable
from typing import ClassVar, Protocol

from holdfast.delivery.delivery import CANCEL_HINT, Delivery, Ready
from holdfast.job import Job, JobState
from holdfast.services.service import Round
from holdfast.stores.bulk import BulkRun, BulkStore, BulkVerb
from holdfast.stores.store import JobStore

_SMOOTH_US = 250_000  # a run with a rate does no more at a time than fits into this
_ANNOUNCED = frozenset({BulkVerb.RETRY, BulkVerb.REPRIORITISE})


class WorkedStore(JobStore, BulkStore, Protocol):
    """What bulk runs need of a store."""


class BulkWork:
    """Works on the run whose turn it is."""

    name: ClassVar[str] = "bulk"

    def __init__(self, store: WorkedStore, delivery: Delivery) -> None:
        self._store = store
        self._delivery = delivery

    async def run(self, batch: int) -> Round:
        """Do one batch of one run."""
        turn = await self._store.next_bulk()
        if turn is None:
            return Round()
        run, wait_ms = turn
        if wait_ms > 0:
            return Round(next_s=wait_ms / 1_000)
        page = await self._store.list_jobs(run.open_to, limit=_size(run, batch), after=run.cursor)
        worked = await self._store.work_bulk(run, [job.id for job in page.jobs], cursor=page.next)
        if worked is None:  # somebody else did it, or the run was stopped
            return Round(scanned=len(page.jobs), has_more=True)
        _, changed = worked
        self._tell(run, [job for job in page.jobs if job.id in changed])
        return Round(scanned=len(page.jobs), moved=len(changed), has_more=True)

    def _tell(self, run: BulkRun, changed: Iterable[Job]) -> None:
        """Hint at what may run now, or has to stop."""
        if run.verb is BulkVerb.CANCEL:
            if any(job.state is JobState.RUNNING for job in changed):
                self._delivery.hint([CANCEL_HINT])
        elif run.verb in _ANNOUNCED:
            now = round(time.time() * 1_000)
            queued = (job for job in changed if run.verb is BulkVerb.RETRY or job.state is JobState.QUEUED)
            self._delivery.announce([Ready(job.id, job.queue, _priority(run, job), now, job.claim) for job in queued])


def _size(run: BulkRun, batch: int) -> int:
    return batch if run.spacing_us == 0 else max(1, min(batch, _SMOOTH_US // run.spacing_us))


def _priority(run: BulkRun, job: Job) -> int:
    return job.priority if run.priority is None else run.priority
