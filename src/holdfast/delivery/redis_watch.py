"""Waiting at one Redis server for the next id, on behalf of everybody who waits in this process."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping

from holdfast.delivery.delivery import Ready
from holdfast.delivery.redis_link import Lane, Link, Lost


class Waiter:
    """Somebody who waits for an id, of a queue that has room."""

    def __init__(self, rooms: Mapping[str, int]) -> None:
        self.rooms = rooms
        self.found: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()

    @property
    def queues(self) -> list[str]:
        """Of which queues an id is wanted; none any more once one was taken."""
        return [] if self.found.done() else [queue for queue, room in self.rooms.items() if room > 0]

    def accepts(self, job: Ready) -> bool:
        """Take the id, if it is wanted here and none was taken yet."""
        if job.queue not in self.queues:
            return False
        self.found.set_result(job)
        return True


class Watch:
    """Keeps one blocking call at a shard for as long as anybody waits.

    The call is never cancelled, for that could lose an id: it ends after a second by itself, or when its bell is rung,
    and what it brings when nobody wants it any more is handed to `unwanted`.
    """

    def __init__(self, link: Link, tag: str, waiters: Iterable[Waiter], unwanted: Callable[[Ready], None]) -> None:
        self._link = link
        self._bell = f"{tag}:bell:{secrets.token_hex(8)}"
        self._waiters = waiters
        self._unwanted = unwanted
        self._blocked_on: frozenset[Lane] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ringing: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Wait at the server, or if that is done already, for lanes that it does not know yet."""
        if self._is_closed:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"holdfast waits at {self._link.shard.name}")
        elif self._blocked_on is not None and self._ringing is None and not self._blocked_on.issuperset(self._wanted()):
            self._ringing = asyncio.create_task(self._ring(), name=f"holdfast rings at {self._link.shard.name}")

    async def close(self, farewell_s: float) -> None:
        """Leave the server; the bell lets it happen between two ids."""
        self._is_closed = True
        if self._task is not None and self._blocked_on is not None and not self._link.pops.is_open:
            await asyncio.wait([asyncio.create_task(self._ring()), self._task], timeout=farewell_s)
        tasks = [task for task in (self._task, self._ringing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _wanted(self) -> list[Lane]:
        return self._link.lanes({queue: None for waiter in self._waiters for queue in waiter.queues})

    async def _run(self) -> None:
        try:
            while not self._is_closed and (lanes := self._wanted()):
                try:
                    if self._link.pops.is_open:
                        await asyncio.sleep(self._link.pops.due_in_s)
                        await self._link.revive()
                        continue
                    await self._block(lanes)
                except Lost:  # the breaker knows, and says when to come back
                    continue
        finally:
            # No await lies between the last look at those who wait and this line, so nobody is left behind.
            self._task = None

    async def _block(self, lanes: list[Lane]) -> None:
        self._blocked_on = frozenset(lanes)
        try:
            found = await self._link.wait(lanes, self._bell)
        finally:
            self._blocked_on = None
        for job in found:
            if not any(waiter.accepts(job) for waiter in self._waiters):
                self._unwanted(job)

    async def _ring(self) -> None:
        try:
            await self._link.ring(self._bell)
        except Lost:  # the call ends by itself within a second
            return
        finally:
            self._ringing = None
