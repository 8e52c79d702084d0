"""Which ids were pushed, told to the store a moment later and many at a time, so that the sweep leaves them alone.

No id is marked in the moment in which it was pushed: a worker may be claiming its job, and PostgreSQL passes over a row
that another session writes to.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from holdfast import moments
from holdfast.errors import HoldfastError

_logger = logging.getLogger("holdfast")

Mark = Callable[[Sequence[int]], Awaitable[None]]

SPACING_S = 0.25
BATCH = 1_000
MOST = 100_000


class Marks:
    """Gathers the ids that lie in Redis; a mark that is lost costs one more announcement."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._ids: list[int] = []
        self._fresh = 0  # how many of them, at the end, were pushed since the last look
        self._is_due = asyncio.Event()
        self._is_closing = False
        self._sender: asyncio.Task[None] | None = None

    def add(self, ids: Sequence[int]) -> None:
        """Mark these soon."""
        taken = ids[: max(MOST - len(self._ids), 0)]
        self._ids.extend(taken)
        self._fresh += len(taken)
        if len(self._ids) >= BATCH:
            self._is_due.set()
        if self._sender is None and self._ids:
            self._sender = asyncio.get_running_loop().create_task(self._send_all(), name="holdfast marks pushed ids")

    async def close(self, farewell_s: float) -> None:
        """Let the last marks be made, at most for a moment."""
        self._is_closing = True
        self._is_due.set()
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=farewell_s)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            while self._ids:
                if len(self._ids) < BATCH and not self._is_closing:
                    await self._rest()
                if batch := self._next_batch():
                    await self._send(batch)
        finally:
            # No await lies between the last look at the ids and this line, so none is left behind.
            self._sender = None

    def _next_batch(self) -> list[int]:
        """Take ids that have lain there for a while; where there are many, or no time is left, the others too."""
        is_urgent = self._is_closing or len(self._ids) >= BATCH
        count = min(len(self._ids), BATCH)
        if not is_urgent:  # guard: late-mark
            count -= self._fresh
        batch, self._ids = self._ids[:count], self._ids[count:]
        self._fresh = 0
        return batch

    async def _send(self, batch: list[int]) -> None:
        try:
            await self._mark(batch)
        except HoldfastError as error:
            _logger.debug("%d pushed ids were not marked: %s", len(batch), error)
        else:
            moments.reach("marked", jobs=batch)

    async def _rest(self) -> None:
        """Wait a moment for more, or until there are enough."""
        self._is_due.clear()
        try:
            async with asyncio.timeout(SPACING_S):
                await self._is_due.wait()
        except TimeoutError:
            return
