"""Works on bulk operations: a batch at a time, each in one commit with the place where the next one begins.

A process that dies between two batches has lost nothing, and two that work on the same one do it once. An operation
whose batch cannot be done waits for longer and longer while others go on, and fails in the end.
"""

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import ClassVar, Protocol

from holdfast.delivery.delivery import CANCEL_HINT, Delivery, Ready
from holdfast.errors import NotOpen, SchemaError, StoreMoved, StoreUnavailable
from holdfast.failure import from_exception
from holdfast.job import JobRow, JobState
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.service import Round
from holdfast.stores.bulk import BulkOperationRow, BulkStore
from holdfast.stores.store import JobStore

_logger = logging.getLogger("holdfast")

_SMOOTH_US = 250_000  # a run with a rate does no more at a time than fits into this
_ANNOUNCED = frozenset({BulkVerb.RETRY, BulkVerb.REPRIORITISE, BulkVerb.RESCHEDULE})
_FIRST_MS, _DOUBLINGS = 1_000, 9  # of the wait after an error: about 9 minutes at the end
_OF_THE_STORE = (NotOpen, SchemaError, StoreMoved, StoreUnavailable)  # which no run is to blame for


class WorkedStore(JobStore, BulkStore, Protocol):
    """What bulk operations need of a store."""


class BulkService:
    """Works on the operation whose turn it is."""

    name: ClassVar[str] = "bulk"

    def __init__(self, store: WorkedStore, delivery: Delivery) -> None:
        self._store = store
        self._delivery = delivery

    async def run(self, batch: int) -> Round:
        """Do one batch of one operation."""
        turn = await self._store.next_bulk()
        if turn is None:
            return Round()
        run, wait_ms = turn
        if wait_ms > 0:
            return Round(next_s=wait_ms / 1_000)
        try:
            return await self._work(run, batch)
        except _OF_THE_STORE:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, other runs go on meanwhile
            await self._fail(run, error)
            return Round(failures=1, has_more=True)

    async def _work(self, run: BulkOperationRow, batch: int) -> Round:
        page = await self._store.list_jobs(run.open_to, limit=_size(run, batch), after=run.cursor)
        worked = await self._store.work_bulk(run, [job.id for job in page.jobs], cursor=page.next)
        if worked is None:  # somebody else did it, or the run was stopped
            return Round(scanned=len(page.jobs), has_more=True)
        _, changed = worked
        self._tell(run, [job for job in page.jobs if job.id in changed])
        return Round(scanned=len(page.jobs), moved=len(changed), has_more=True)

    async def _fail(self, run: BulkOperationRow, error: Exception) -> None:
        why = from_exception(error)
        said = f"{why.error_class}: {why.message}"
        delay_ms = _FIRST_MS << min(run.errors, _DOUBLINGS)
        failed = await self._store.fail_bulk(run, said, delay_ms)
        if failed is None:  # it was done after all, or by somebody else
            return
        if failed.state is BulkState.FAILED:
            _logger.error("bulk operation %s failed after %s errors in a row: %s", run.id, failed.errors, said)
        else:
            _logger.warning("bulk operation %s goes on in %g s: %s", run.id, delay_ms / 1_000, said)

    def _tell(self, run: BulkOperationRow, changed: Iterable[JobRow]) -> None:
        """Hint at what may run now, or has to stop."""
        if run.verb is BulkVerb.CANCEL:
            if any(job.state is JobState.RUNNING for job in changed):
                self._delivery.hint([CANCEL_HINT])
        elif run.verb in _ANNOUNCED:
            now = round(time.time() * 1_000)
            queued = (job for job in changed if _may_run(run, job))
            self._delivery.announce([Ready(job.id, job.queue, _priority(run, job), now, job.claim) for job in queued])


def _may_run(run: BulkOperationRow, job: JobRow) -> bool:
    """Whether a job that was changed may run at once; `job` is what it was before."""
    if run.verb is BulkVerb.RETRY:
        return True
    if run.due is not None:
        is_soon = not run.due.delay_ms if run.due.run_at is None else run.due.run_at <= datetime.now(UTC)
        return is_soon and job.state in (JobState.QUEUED, JobState.SCHEDULED)
    return job.state is JobState.QUEUED


def _size(run: BulkOperationRow, batch: int) -> int:
    fewer = max(1, batch >> min(run.errors, _DOUBLINGS))  # what was too much for one commit may be done in several
    return fewer if run.spacing_us == 0 else max(1, min(fewer, _SMOOTH_US // run.spacing_us))


def _priority(run: BulkOperationRow, job: JobRow) -> int:
    return job.priority if run.priority is None else run.priority
