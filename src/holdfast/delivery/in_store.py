"""Hints by way of the store itself: NOTIFY on PostgreSQL, a datagram beside the file on SQLite.

Nobody who enqueues waits for a hint: one task sends them after the commit, and what gathers meanwhile shares the next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from holdfast.delivery.delivery import Source
from holdfast.stores.store import Listening, WakeStore
from holdfast.stores.values import Ready

_logger = logging.getLogger("holdfast")

SPACING_S = 0.005  # on PostgreSQL every NOTIFY passes a lock that all committing sessions of the server share
_FAREWELL_S = 1.0


class InStore:
    """Announces to everybody who listens at the same store."""

    source: Source | None = None  # it carries the names of queues, no ids

    def __init__(self, store: WakeStore) -> None:
        self._store = store
        self._gathering: set[str] = set()
        self._sender: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self._closed = False

    def announce(self, jobs: Iterable[Ready]) -> None:
        """Hint that jobs of the queues of these jobs may run."""
        self.hint({job.queue for job in jobs})

    def hint(self, queues: Iterable[str]) -> None:
        """Hint that jobs of these queues may run; names that gather before the next hint leaves collapse."""
        self._gathering.update(queues)
        if self._sender is not None or not self._gathering or self._closed:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # outside of an event loop there is nobody to send it, and a hint may be lost
            return
        self._sender = loop.create_task(self._send_all(), name="holdfast announces")

    def wakeups(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Listen at the store."""
        return self._store.listen(queues, wake)

    async def close(self) -> None:
        """Let the last hints go out, at most for a second."""
        self._closed = True
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=_FAREWELL_S)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._gathering:
                await asyncio.sleep(max(self._next_at - loop.time(), 0))
                queues, self._gathering = sorted(self._gathering), set()
                await self._send(queues)
                self._next_at = loop.time() + SPACING_S
        finally:
            # No await lies between the last look at the gathering names and this line, so none is left behind.
            self._sender = None

    async def _send(self, queues: Sequence[str]) -> None:
        try:
            await self._store.announce(queues)
        except Exception as error:  # noqa: BLE001 - whatever it is, a hint may be lost and enqueuing goes on
            _logger.debug("a hint for the queues %s was dropped: %s", ", ".join(queues), error)
