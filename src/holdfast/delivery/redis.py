"""Ids of waiting jobs by way of Redis, one sorted set for each lane; Redis may be flushed, stopped or lie at any time.

Reading order: `redis_breaker` (when to leave a server alone), `redis_link` (one server), `redis_outbox` and
`redis_marks` (ids going in), `redis_turns` and `redis_watch` (ids coming out), then this file. Cancellations, and jobs
that callers commit in transactions of their own, still come by way of the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from holdfast import moments
from holdfast.delivery.delivery import Ready, Source
from holdfast.delivery.in_store import InStore
from holdfast.delivery.redis_link import BLOCK_S, Lane, Link, Lost
from holdfast.delivery.redis_marks import Mark, Marks
from holdfast.delivery.redis_outbox import Outbox
from holdfast.delivery.redis_turns import Turns
from holdfast.delivery.redis_watch import Waiter, Watch
from holdfast.shards import RedisDelivery
from holdfast.stores.store import Listening

_logger = logging.getLogger("holdfast")

T = TypeVar("T")

MOST_GATHERED = 100_000
_FAREWELL_S = 1.0


class ByRedis:
    """Pushes the ids of committed jobs, and pops them for workers; `mark` tells the store which ones were pushed.

    It counts ids: `pushed`, `dropped` (left to the sweep) and `popped`.
    """

    def __init__(self, settings: RedisDelivery, in_store: InStore, mark: Mark) -> None:
        self.source: Source | None = self
        self.pushed = 0
        self.dropped = 0
        self.popped = 0
        self._in_store = in_store
        self._links = [Link(shard, settings) for shard in settings.shards]
        self._by_priority = {priority: link for link in self._links for priority in link.shard.band}
        self._marks = Marks(mark)
        self._outboxes = {link: Outbox(link, self._note_pushed, self._note_dropped) for link in self._links}
        self._turns = Turns([link.shard.weight for link in self._links])
        self._waiters: set[Waiter] = set()
        self._watches = [Watch(link, settings.tag, self._waiters, self._leave) for link in self._links]
        self._errands: set[asyncio.Task[Any]] = set()
        self._first_queue = 0
        self._is_full = False
        self._is_closed = False

    @property
    def push_failures(self) -> int:
        """How many batches were given up after their tries."""
        return sum(outbox.failures for outbox in self._outboxes.values())

    @property
    def is_live(self) -> bool:
        """Whether every shard answered when it was asked last: one that is lost hides the jobs of its priorities."""
        return all(link.is_live for link in self._links)

    def announce(self, jobs: Iterable[Ready]) -> None:
        """Push ids soon; there is room for 100,000 that wait for it."""
        room = 0 if self._is_closed else max(MOST_GATHERED - self._gathered, 0)
        for link, its_jobs in self._by_link(jobs).items():
            taken, left = its_jobs[:room], its_jobs[room:]
            room -= len(taken)
            if taken:
                self._outboxes[link].add(taken)
            if left:
                self._note_dropped(left)
                if not self._is_full and not self._is_closed:
                    self._is_full = True
                    _logger.warning("Redis is slower than jobs come: ids over %d are left to the sweep", MOST_GATHERED)
        if self._gathered < MOST_GATHERED // 2:
            self._is_full = False

    def hint(self, queues: Iterable[str]) -> None:
        """Hint by way of the store."""
        self._in_store.hint(queues)

    def wakeups(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Listen at the store."""
        return self._in_store.wakeups(queues, wake)

    async def pop(self, rooms: Mapping[str, int], limit: int) -> list[Ready]:
        """Take what is there; if there is nothing, wait at all shards at once, at most a second."""
        taking = asyncio.create_task(self._take(rooms, limit), name="holdfast pops")
        try:
            found = await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._run(self._take_back(taking))
            raise
        if not found:
            found = await self._wait(rooms if limit > 0 else {})
        self.popped += len(found)
        return found

    def settled(self, job_id: int) -> None:
        """Nothing is kept here of an id that was popped."""

    async def put_back(self, jobs: Sequence[Ready]) -> None:
        """Push ids again, at the place that they had; where that fails they are left to the sweep."""
        await self._carried_out(self._put(jobs), None)

    async def lengths(self, lanes: Iterable[Lane]) -> dict[Lane, int]:
        """How many ids lie in each lane; lanes of a shard that does not answer are left out."""
        by_link: dict[Link, list[Lane]] = {}
        for lane in lanes:
            by_link.setdefault(self._by_priority[lane[1]], []).append(lane)
        return await self._carried_out(self._counted(by_link), {})

    async def missing(self, jobs: Sequence[Ready]) -> list[Ready] | None:
        """Find the jobs whose ids do not lie in their lanes; those of a shard that does not answer are left out.

        None where a server does not let us look for one id.
        """
        return await self._carried_out(self._sought(self._by_link(jobs)), [])

    async def close(self) -> None:
        """Let pushes and marks go out, at most for a second, then leave."""
        self._is_closed = True
        loop = asyncio.get_running_loop()
        end = loop.time() + _FAREWELL_S
        await asyncio.gather(
            *(outbox.close(_FAREWELL_S) for outbox in self._outboxes.values()),
            *(watch.close(_FAREWELL_S) for watch in self._watches),
        )
        await self._marks.close(max(end - loop.time(), 0))
        if self._errands:
            await asyncio.wait(self._errands, timeout=max(end - loop.time(), 0))
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links))
        await self._in_store.close()

    async def _take(self, rooms: Mapping[str, int], limit: int) -> list[Ready]:
        """Ask the shards by their weights; what one of them does not have is taken from the others."""
        room = self._rotated(rooms)
        wanted = min(limit, sum(room.values()))
        live = [number for number, link in enumerate(self._links) if not link.pops.is_open]
        if any(link.pops.is_open and not link.pops.due_in_s for link in self._links):
            self._run(self._revive())
        if wanted <= 0 or not live:
            return []
        shares = self._turns.deal(wanted, live)
        found: list[Ready] = []
        if min(room.values()) >= wanted:  # then shards that are asked at the same time cannot overfill a queue
            asked = [_or_nothing(self._links[number].take(room, share), []) for number, share in shares.items()]
            given = dict(zip(shares, await asyncio.gather(*asked), strict=True))
            for jobs in given.values():
                _move(jobs, room, found)
        else:
            given = {}
            for number, share in shares.items():
                given[number] = await _or_nothing(self._links[number].take(room, share), [])
                _move(given[number], room, found)
        for number in live:
            if len(found) < wanted and len(given.get(number, ())) == shares.get(number, 0):
                _move(await _or_nothing(self._links[number].take(room, wanted - len(found)), []), room, found)
        return found

    @property
    def _gathered(self) -> int:
        return sum(map(len, self._outboxes.values()))

    def _by_link(self, jobs: Iterable[Ready]) -> dict[Link, list[Ready]]:
        by_link: dict[Link, list[Ready]] = {}
        for job in jobs:
            by_link.setdefault(self._by_priority[job.priority], []).append(job)
        return by_link

    def _rotated(self, rooms: Mapping[str, int]) -> dict[str, int]:
        """Let another queue be the first each time, or among equal priorities it would always be the same."""
        roomy = [(queue, room) for queue, room in rooms.items() if room > 0]
        if not roomy:
            return {}
        start = self._first_queue % len(roomy)
        self._first_queue += 1
        return dict(roomy[start:] + roomy[:start])

    async def _wait(self, rooms: Mapping[str, int]) -> list[Ready]:
        waiter = Waiter(rooms)
        self._waiters.add(waiter)
        for watch in self._watches:
            watch.start()
        try:
            await asyncio.wait([waiter.found], timeout=BLOCK_S)
        except asyncio.CancelledError:
            if waiter.found.done():
                self._leave(waiter.found.result())
            raise
        finally:
            self._waiters.discard(waiter)
        return [waiter.found.result()] if waiter.found.done() else []

    async def _put(self, jobs: Sequence[Ready]) -> None:
        for link, its_jobs in self._by_link(jobs).items():
            if link.pops.is_open:
                continue
            try:
                await link.add(its_jobs)
            except Lost as error:
                _logger.debug("%d ids were not put back to Redis: %s", len(its_jobs), error)

    async def _counted(self, by_link: Mapping[Link, Sequence[Lane]]) -> dict[Lane, int]:
        await self._revive()
        found: dict[Lane, int] = {}
        for link, its_lanes in by_link.items():
            if not link.pops.is_open:
                found |= await _or_nothing(link.lengths(its_lanes), {})
        return found

    async def _sought(self, by_link: Mapping[Link, Sequence[Ready]]) -> list[Ready] | None:
        lost: list[Ready] = []
        for link, its_jobs in by_link.items():
            found = await _or_nothing(link.missing(its_jobs), [])
            if found is None:
                return None
            lost += found
        return lost

    async def _take_back(self, taking: "asyncio.Task[list[Ready]]") -> None:
        await self._put(await taking)

    def _leave(self, job: Ready) -> None:
        self._run(self._put([job]))

    async def _revive(self) -> None:
        for link in self._links:
            await _or_nothing(link.revive(), None)

    async def _carried_out(self, errand: Coroutine[None, None, T], nothing: T) -> T:
        """Wait for an errand that a cancellation does not reach: on Python 3.11 the client library may swallow it."""
        task = self._run(errand)
        await asyncio.wait([task])
        return nothing if task.cancelled() else task.result()

    def _run(self, errand: Coroutine[None, None, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(errand, name="holdfast runs an errand to Redis")
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    def _note_pushed(self, jobs: Sequence[Ready]) -> None:
        self.pushed += len(jobs)
        ids = [job.id for job in jobs]
        self._marks.add(ids)
        moments.reach("pushed", jobs=ids)

    def _note_dropped(self, jobs: Sequence[Ready]) -> None:
        """Leave ids to the sweep; those who listen at the store need not wait for it."""
        self.dropped += len(jobs)
        self._in_store.hint({job.queue for job in jobs})


def _move(jobs: Sequence[Ready], room: dict[str, int], found: list[Ready]) -> None:
    for job in jobs:
        room[job.queue] -= 1
    found.extend(jobs)


async def _or_nothing(answer: Awaitable[T], nothing: T) -> T:
    try:
        return await answer
    except Lost:
        return nothing
