"""Ids that Arq has called this process with, and the calls that wait until their jobs need it no more."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from holdfast.delivery.delivery import Ready
from holdfast.errors import HoldfastError
from holdfast.job import JobRow, JobState

_logger = logging.getLogger("holdfast")

Read = Callable[[Sequence[int]], Awaitable[list[JobRow]]]

_WAIT_S = 1.0
_PAUSE_S = 0.2  # after the store did not answer
_READ_AT_ONCE = 1_000


class Inbox:
    """Where a worker gets its ids from, inside an Arq worker.

    A call names a job and nothing else, so that its queue is read in the store; what does not wait there any more, and
    jobs of queues that are not worked here, are done with at once.
    """

    def __init__(self, read: Read, queues: Collection[str], is_live: Callable[[], bool]) -> None:
        self._read = read
        self._queues = frozenset(queues)
        self._is_live = is_live
        self._calls: dict[int, list[asyncio.Future[bool]]] = {}
        self._fresh: dict[int, None] = {}  # ids that were not read yet, in the order they came
        self._known: dict[int, Ready] = {}  # ids that wait for room
        self._arrived = asyncio.Event()
        self._is_leaving = False

    @property
    def is_live(self) -> bool:
        """Whether Arq's server answers."""
        return self._is_live()

    async def deliver(self, job_id: int) -> bool:
        """Offer an id, and wait until it needs this worker no more; False when it is to be offered to others."""
        if self._is_leaving:
            return False
        call: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if job_id not in self._calls:  # else it is being seen to
            self._fresh[job_id] = None
            self._arrived.set()
        self._calls.setdefault(job_id, []).append(call)
        try:
            return await call
        finally:
            self._hang_up(job_id, call)

    async def pop(self, rooms: Mapping[str, int], limit: int) -> list[Ready]:
        """Take what is there; if there is nothing, wait at most a second."""
        found = self._take(rooms, limit)
        if not found:
            await self._look_up()
            found = self._take(rooms, limit)
        return found

    def settled(self, job_id: int) -> None:
        """Let the calls for an id return."""
        self._answer(job_id, is_done=True)

    async def put_back(self, jobs: Sequence[Ready]) -> None:
        """Keep ids until there is room again; others find their jobs in the store meanwhile."""
        self._keep(jobs)
        if self._is_leaving:
            self.leave()

    def leave(self) -> None:
        """Let calls return whose jobs were not begun, and all that come from now on."""
        self._is_leaving = True
        for job_id in (*self._fresh, *self._known):
            self._answer(job_id, is_done=False)

    def close(self) -> None:
        """Let every call return."""
        self._is_leaving = True
        for job_id in list(self._calls):
            self._answer(job_id, is_done=False)

    def _answer(self, job_id: int, *, is_done: bool) -> None:
        self._fresh.pop(job_id, None)
        self._known.pop(job_id, None)
        for call in self._calls.pop(job_id, ()):
            if not call.done():
                call.set_result(is_done)

    def _hang_up(self, job_id: int, call: asyncio.Future[bool]) -> None:
        """Forget a call that has returned or was cancelled, and its id if nobody else waits for it."""
        calls = self._calls.get(job_id)
        if calls is None or call not in calls:
            return
        calls.remove(call)
        if not calls:
            self.settled(job_id)

    def _take(self, rooms: Mapping[str, int], limit: int) -> list[Ready]:
        left = dict(rooms)
        found: list[Ready] = []
        for job in list(self._known.values()):
            if len(found) >= limit:
                break
            if left.get(job.queue, 0) > 0:
                left[job.queue] -= 1
                found.append(self._known.pop(job.id))
        return found

    async def _look_up(self) -> None:
        """Read the queues of ids in the store, as soon as there are some."""
        if not self._fresh:
            self._arrived.clear()
            try:
                async with asyncio.timeout(_WAIT_S):
                    await self._arrived.wait()
            except TimeoutError:
                return
        ids = list(self._fresh)[:_READ_AT_ONCE]
        try:
            jobs = await self._read(ids)
        except HoldfastError as error:
            _logger.debug("%d ids that Arq has delivered are read later: %s", len(ids), error)
            await asyncio.sleep(_PAUSE_S)
            return
        self._sort(ids, {job.id: job for job in jobs})

    def _sort(self, ids: Iterable[int], jobs: Mapping[int, JobRow]) -> None:
        for job_id in ids:
            job = jobs.get(job_id)
            if job is None or job.state is not JobState.QUEUED or job.queue not in self._queues:
                self.settled(job_id)
            elif self._fresh.pop(job_id, job_id) is None:  # else its call was cancelled meanwhile
                self._keep([Ready(job.id, job.queue, job.priority, round(job.run_at.timestamp() * 1_000), job.claim)])

    def _keep(self, jobs: Iterable[Ready]) -> None:
        self._known.update({job.id: job for job in jobs if job.id in self._calls})
