"""Ids for new jobs, drawn in blocks before the insert, so that a retried insert can name the same job."""

import asyncio
import time
from collections import deque

from holdfast.stores.store import JobStore

BLOCK = 64
FRESH_S = 5.0  # an old block would give new jobs ids far below those of other clients


class IdBlocks:
    """Hands out ids of one store; one block is in use at a time, old ones are thrown away."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._block: deque[int] = deque()
        self._fresh_until = 0.0
        self._wanted = 0
        self._drawing = asyncio.Lock()

    def take_now(self) -> int | None:
        """Take an id of the block in use, if there is one left."""
        return self._block.popleft() if self._usable() else None

    async def take(self) -> int:
        """Take one id; when the block is used up, one caller draws for all who wait."""
        self._wanted += 1
        try:
            if not self._usable():
                async with self._drawing:
                    if not self._usable():
                        self._block = deque(await self._store.take_ids(max(BLOCK, self._wanted)))
                        self._fresh_until = time.monotonic() + FRESH_S
                    return self._block.popleft()
            return self._block.popleft()
        finally:
            self._wanted -= 1

    async def take_many(self, count: int) -> list[int]:
        """Take as many ids as a bulk insert needs, in one call."""
        return await self._store.take_ids(count)

    def _usable(self) -> bool:
        return bool(self._block) and time.monotonic() < self._fresh_until
