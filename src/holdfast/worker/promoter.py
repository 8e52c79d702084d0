"""Looking without a hint: due jobs are made ready, lanes are read again, paused queues get their jobs back."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.stores.store import Listening, QueueStore, UpkeepStore

_logger = logging.getLogger("holdfast")

_BATCH = 1_000
_BLIND_S = 0.1  # between looks while hints cannot be relied on


class PromotedStore(UpkeepStore, QueueStore, Protocol):
    """What looking needs of a store."""


class Promoter:
    """The backstop of one process: once a second, or when the next job is due."""

    def __init__(
        self,
        store: PromotedStore,
        poll_s: float,
        hint: Callable[[str | None], None],
        return_buffer: Callable[[Iterable[str]], bool],
    ) -> None:
        self.listening: Listening | None = None
        self._store = store
        self._poll_s = poll_s
        self._hint = hint
        self._return_buffer = return_buffer
        self._next_due_s: float | None = None
        self._looks = asyncio.Event()

    def look(self) -> None:
        """Look soon: a job may be due earlier than was known."""
        self._looks.set()

    async def serve(self) -> None:
        """Look for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._looks.wait()
            self._looks.clear()
            try:
                await self.promote()
                if self._return_buffer(()):
                    self._return_buffer([row.name for row in await self._store.list_queues() if row.paused_at])
            except HoldfastError as error:
                _logger.debug("due jobs are looked for later: %s", error)
            self._hint(None)

    async def promote(self) -> int:
        """Make due jobs ready; how many there were."""
        promoted = await self._store.promote_jobs(_BATCH)
        self._next_due_s = None if promoted.next_due_ms is None else promoted.next_due_ms / 1_000
        if promoted.jobs:
            self._hint(None)
        return promoted.jobs

    def _pause(self) -> float:
        longest = self._poll_s if self.listening is None or self.listening.is_live else min(self._poll_s, _BLIND_S)
        if self._next_due_s is not None:
            return max(min(self._next_due_s, longest), 0.001)
        return longest * random.uniform(0.9, 1.0)
