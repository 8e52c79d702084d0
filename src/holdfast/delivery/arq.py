"""Ids of waiting jobs by way of Arq: its workers are called with them, and claim them in the store like any others.

What goes out is pushed as to Redis itself, see `redis_outbox` and `redis_marks`; what comes in is in `arq_inbox`. A
delivery is named after the job and how often it was claimed, so that one waiting is announced once however often that
is tried, and the next one anew.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from holdfast import public_id
from holdfast.arq_delivery import ArqDelivery
from holdfast.backends.arq import ArqQueueBackend, json_pool
from holdfast.delivery.delivery import Ready, Source
from holdfast.delivery.in_store import InStore
from holdfast.delivery.redis import MOST_GATHERED
from holdfast.delivery.redis_link import ANSWER_S, Lane, Link, Lost
from holdfast.delivery.redis_marks import Mark, Marks
from holdfast.delivery.redis_outbox import Outbox
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.store import Listening

FUNCTION = "holdfast_run"
"""The name by which Arq workers know what runs Holdfast's jobs."""

_FAREWELL_S = 1.0
_CALLS_AT_ONCE = 500


class ArqLink(Link):
    """The server of an Arq deployment."""

    def __init__(self, settings: ArqDelivery) -> None:
        shard = Shard("arq", settings.url)
        super().__init__(shard, RedisDelivery([shard]))
        self._backend = ArqQueueBackend(json_pool(self._quick.connection_pool, settings.queue))

    async def add(self, jobs: Sequence[Ready]) -> list[Ready]:
        """Let Arq call for each job; each part of them has its own deadline, for many take this process a while."""
        for start in range(0, len(jobs), _CALLS_AT_ONCE):
            payloads = {}
            for job in jobs[start : start + _CALLS_AT_ONCE]:
                shown = public_id.encode(job.id)
                delivery = f"{shown}-{job.claim}"
                payloads[delivery] = {"job": shown, "delivery": delivery}
            await self._read(self._backend.enqueue_many(FUNCTION, payloads), ANSWER_S)
        return []

    async def count_waiting(self, most: int) -> int:
        """How many calls wait, exactly while that are fewer than `most`."""
        return await self._read(self._backend.count_waiting(most), ANSWER_S)


class ByArq:
    """Hands the ids of committed jobs to Arq; in an Arq worker, `source` gives those that it was called with.

    It counts ids: `pushed` and `dropped` (left to the sweep).
    """

    def __init__(self, settings: ArqDelivery, in_store: InStore, mark: Mark) -> None:
        self.source: Source | None = None
        self.pushed = 0
        self.dropped = 0
        self._in_store = in_store
        self._link = ArqLink(settings)
        self._marks = Marks(mark)
        self._outbox = Outbox(self._link, self._note_pushed, self._note_dropped)
        self._is_closed = False

    @property
    def push_failures(self) -> int:
        """How many batches were given up after their tries."""
        return self._outbox.failures

    @property
    def is_live(self) -> bool:
        """Whether the server has answered whenever it was asked last."""
        return not self._link.pops.is_open

    def announce(self, jobs: Iterable[Ready]) -> None:
        """Hand ids to Arq soon; there is room for 100,000 that wait for it."""
        given = list(jobs)
        room = 0 if self._is_closed else max(MOST_GATHERED - len(self._outbox), 0)
        if given[:room]:
            self._outbox.add(given[:room])
        if given[room:]:
            self._note_dropped(given[room:])

    def hint(self, queues: Iterable[str]) -> None:
        """Hint by way of the store."""
        self._in_store.hint(queues)

    def wakeups(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Listen at the store."""
        return self._in_store.wakeups(queues, wake)

    async def lengths(self, waiting: Mapping[Lane, int]) -> dict[Lane, int]:
        """How many ids of each lane are there; Arq has one queue for all lanes, so that it lacks of all or of none."""
        # In a task of its own: the client library may swallow the cancellation of whoever waits for it.
        counting = asyncio.create_task(self._counted(waiting), name="holdfast counts calls of arq")
        try:
            return await asyncio.shield(counting)
        finally:
            counting.cancel()

    async def _counted(self, waiting: Mapping[Lane, int]) -> dict[Lane, int]:
        try:
            await self._link.revive()
            jobs = sum(waiting.values())
            has_all = not self._link.pops.is_open and await self._link.count_waiting(jobs) >= jobs
        except Lost:
            return {}
        if self._link.pops.is_open:
            return {}
        return dict(waiting) if has_all else dict.fromkeys(waiting, 0)

    async def close(self) -> None:
        """Let ids and marks go out, at most for a second, then leave."""
        self._is_closed = True
        loop = asyncio.get_running_loop()
        end = loop.time() + _FAREWELL_S
        await self._outbox.close(_FAREWELL_S)
        await self._marks.close(max(end - loop.time(), 0))
        await self._link.close()
        await self._in_store.close()

    def _note_pushed(self, jobs: Sequence[Ready]) -> None:
        self.pushed += len(jobs)
        self._marks.add([job.id for job in jobs])

    def _note_dropped(self, jobs: Sequence[Ready]) -> None:
        """Leave ids to the sweep; those who listen at the store need not wait for it."""
        self.dropped += len(jobs)
        if not self._is_closed:
            self._in_store.hint({job.queue for job in jobs})
