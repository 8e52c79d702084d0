"""Waiting for results: one poller asks for all jobs that anybody in this process waits for.

It asks every 20 ms while something happens, and slows down to 500 ms while nothing does. A store that cannot be
reached ends no wait; each waiter's own timeout does.
"""

import asyncio
import time

from holdfast import public_id
from holdfast.client.jobs import missing
from holdfast.duration import Duration, milliseconds
from holdfast.errors import JobNotFound, NotOpen, OutcomeUnknown, ResultTimeout, StoreUnavailable
from holdfast.job import JobRow
from holdfast.stores.store import JobStore

FASTEST_S, SLOWEST_S = 0.02, 0.5
SLOWING = 1.5
EXISTENCE_S = 5.0  # how often it is checked that the jobs waited for still exist at all


class Waiting:
    """The poller of one store; it runs only while somebody waits."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._waiters: dict[int, set[asyncio.Future[JobRow]]] = {}
        self._unseen: set[int] = set()
        self._poller: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._failure: Exception | None = None

    async def ended(self, job_id: int, timeout: Duration | None) -> JobRow:
        """Wait until a job is not live any more and return it."""
        timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1_000
        if timeout_s == 0:
            return await self._ended_now(job_id)
        future: asyncio.Future[JobRow] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(job_id, set()).add(future)
        self._unseen.add(job_id)
        self._joined.set()
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll(), name="holdfast results")
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            message = (
                f"job {public_id.encode(job_id)} had not finished after {timeout_s:g} s; it goes on, ask again later"
            )
            if self._failure is not None:
                message += f" (the store could not be asked: {self._failure})"
            raise ResultTimeout(message) from self._failure
        finally:
            self._leave(job_id, future)

    async def _ended_now(self, job_id: int) -> JobRow:
        found = await self._store.get_jobs([job_id])
        if not found:
            raise JobNotFound(missing(job_id))
        if not found[0].is_finished:
            message = f"job {public_id.encode(job_id)} has not ended: it is {found[0].state}; ask again later"
            raise ResultTimeout(message)
        return found[0]

    async def close(self) -> None:
        """End every wait; the jobs go on."""
        message = "the app was closed while a result was waited for; the job goes on"
        self._fail_all(NotOpen(message))
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait([self._poller])

    def _leave(self, job_id: int, future: asyncio.Future[JobRow]) -> None:
        waiters = self._waiters.get(job_id, set())
        waiters.discard(future)
        if not waiters:
            self._waiters.pop(job_id, None)
            self._unseen.discard(job_id)

    async def _poll(self) -> None:
        pause, checked_at = FASTEST_S, time.monotonic()
        try:
            while self._waiters:
                self._joined.clear()
                if time.monotonic() - checked_at > EXISTENCE_S:
                    self._unseen.update(self._waiters)
                    checked_at = time.monotonic()
                pause = FASTEST_S if await self._looked() else min(pause * SLOWING, SLOWEST_S)
                if await self._sleep(pause):
                    pause = FASTEST_S
        except Exception as error:  # noqa: BLE001 - whatever it is, each waiter must be told
            self._fail_all(error)
        finally:
            self._poller = None

    async def _looked(self) -> bool:
        """Look once; True when something was found."""
        unseen = [job_id for job_id in self._unseen if job_id in self._waiters]
        seen = [job_id for job_id in self._waiters if job_id not in self._unseen]
        try:
            known = {job.id: job for job in await self._store.get_jobs(unseen)} if unseen else {}
            ended = [*(await self._store.finished_jobs(seen) if seen else ())]
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._failure = error
            return False
        self._failure = None
        for job_id in unseen:
            self._unseen.discard(job_id)
            if job_id not in known:
                self._fail(job_id, JobNotFound(missing(job_id)))
        ended += [job for job in known.values() if job.is_finished]
        for job in ended:
            for future in self._waiters.pop(job.id, ()):
                if not future.done():
                    future.set_result(job)
        return bool(ended)

    async def _sleep(self, pause: float) -> bool:
        """Sleep until the next look; True when a newcomer cut it short."""
        await asyncio.sleep(FASTEST_S)
        try:
            async with asyncio.timeout(pause - FASTEST_S):
                await self._joined.wait()
        except TimeoutError:
            return False
        return True

    def _fail(self, job_id: int, error: Exception) -> None:
        for future in self._waiters.pop(job_id, ()):
            if not future.done():
                future.set_exception(error)

    def _fail_all(self, error: Exception) -> None:
        for job_id in list(self._waiters):
            self._fail(job_id, error)
