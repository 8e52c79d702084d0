"""Calls the callbacks of finished jobs: when they become stale, and before they are deleted.

Each call is a row in the store, so a restart forgets none. A callback that raises is counted and called
again later, and never keeps retention from its work.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast import failure
from holdfast.errors import HoldfastError
from holdfast.job import JobRow
from holdfast.resources import job_rows
from holdfast.resources.job import Job
from holdfast.stores.store import RetentionStore
from holdfast.stores.values import RetentionDue

_logger = logging.getLogger("holdfast")

Callback = Callable[[Job], Any]
Callbacks = Mapping[tuple[str, str], Sequence[Callback]]
"""By queue and by what happens, "stale" or "delete"."""

MOST_TRIES = 5
_LOOK_S = 5.0
_BATCH = 100
_LEASE_MS = 60_000
_FIRST_DELAY_MS = 30_000


class RetentionCallbacksService:
    """Makes the calls that are due."""

    def __init__(self, store: RetentionStore, callbacks: Callbacks, queues: Sequence[str]) -> None:
        self.failures = 0  # of callbacks
        self._store = store
        self._callbacks = callbacks
        self._queues = queues  # other queues belong to other apps

    async def serve(self) -> None:
        """Make the calls that are due, every few seconds."""
        while True:
            try:
                while await self.tell() == _BATCH:
                    continue
            except HoldfastError as error:
                _logger.debug("callbacks of finished jobs are called later: %s", error)
            await asyncio.sleep(_LOOK_S)

    async def tell(self) -> int:
        """Make the calls that are due now, and return how many they were."""
        dues = await self._store.claim_retention(self._queues, _BATCH, _LEASE_MS)
        jobs = {job.id: job for job in await self._store.kept_jobs([due.job_id for due in dues])} if dues else {}
        for due in sorted(dues, key=lambda due: due.what != "stale"):  # before a job is gone
            await self._tell_one(due, jobs.get(due.job_id))
        return len(dues)

    async def _tell_one(self, due: RetentionDue, job: JobRow | None) -> None:
        if job is not None and job.life == due.life:  # or it was deleted by hand, or lives again
            error = await self._called(job, due.what)
            if error is not None and due.tries < MOST_TRIES:
                why = failure.from_exception(error)
                delay_ms = _FIRST_DELAY_MS * 2 ** (due.tries - 1)
                await self._store.postpone_retention(due, delay_ms, f"{why.error_class}: {why.message}")
                return
        await self._store.end_retention(due)

    async def _called(self, job: JobRow, what: str) -> Exception | None:
        """Call every callback; the answer is what the first one that failed has raised."""
        first: Exception | None = None
        for callback in self._callbacks.get((job.queue, what), ()):
            try:
                answer = callback(job_rows.job(job))
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:
                self.failures += 1
                first = first or error
                _logger.exception("a callback about job %s (%s) failed", job.public_id, what)
        return first
