"""Looking without a hint: due jobs are made ready, lanes are read again, paused queues get their jobs back."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast import moments
from holdfast.delivery.delivery import Delivery
from holdfast.errors import HoldfastError
from holdfast.stores.limits import LimitStore
from holdfast.stores.store import Listening, QueueStore, UpkeepStore

_logger = logging.getLogger("holdfast")

_BATCH = 1_000
_BLIND_S = 0.1  # between looks while hints cannot be relied on
_NOTICED_S = 1.0  # the longest until it is noticed that they cannot
_SWEPT_KEYS = 200  # in one look
_SOONEST = 0.9  # of a pause: spread, or all workers would look at the same moment


class PromotedStore(UpkeepStore, QueueStore, LimitStore, Protocol):
    """What looking needs of a store."""


class Promoter:
    """The backstop of one process: once a second, or when the next job is due."""

    def __init__(
        self,
        store: PromotedStore,
        delivery: Delivery,
        poll_s: float,
        hint: Callable[[str | None], None],
        return_buffer: Callable[[Iterable[str]], bool],
    ) -> None:
        self.listening: Listening | None = None
        self._store = store
        self._delivery = delivery
        self.poll_s = poll_s
        self._hinted_at = time.monotonic()  # the first claim reads the lanes
        self._hint = hint
        self._return_buffer = return_buffer
        self._next_due_s: float | None = None
        self._promoted = 0
        self._swept_at = -math.inf
        self._swept_to = ""  # the last key of a limit that was looked at
        self._looks = asyncio.Event()

    def look(self) -> None:
        """Look soon: a job may be due earlier than was known."""
        self._looks.set()

    async def serve(self) -> None:
        """Look for ever."""
        while True:
            await self._rest()
            try:
                await self.promote()
                await self._sweep()
                if self._return_buffer(()):
                    self._return_buffer([row.name for row in await self._store.list_queues() if row.paused_at])
            except HoldfastError as error:
                _logger.debug("due jobs are looked for later: %s", error)
            self._look_at_lanes()

    @property
    def has_nothing_due(self) -> bool:
        """Whether the last look found nothing due, not even what another process was making ready just then."""
        return self._promoted == 0 and self._next_due_s != 0

    async def promote(self) -> None:
        """Make due jobs ready."""
        source = self._delivery.source
        promoted = await self._store.promote_jobs(_BATCH, named=source is not None)
        self._next_due_s = None if promoted.next_due_ms is None else promoted.next_due_ms / 1_000
        if promoted.ready:
            self._delivery.announce(promoted.ready)
        elif promoted.jobs:
            self._hint(None)
        self._promoted = promoted.jobs
        moments.reach("promoted", jobs=promoted.jobs)

    async def _sweep(self) -> None:
        """Let jobs go on, once a second, that wait for a limit which could let them: the call that should is lost."""
        if time.monotonic() - self._swept_at < self.poll_s * _SOONEST:
            return
        self._swept_at = time.monotonic()
        swept = await self._store.sweep_limits(self._swept_to, _SWEPT_KEYS, leaks=False)
        self._swept_to = swept.after or ""
        if swept.released:
            self._hint(None)

    def _look_at_lanes(self) -> None:
        """Read the lanes: each time where nobody delivers ids, else only in case some were lost."""
        if self._delivery.source is None or not self._lanes_due_s:
            self._hinted_at = time.monotonic()
            self._hint(None)
            moments.reach("lanes_looked_at")

    @property
    def _lanes_due_s(self) -> float:
        """How long the lanes need not be read where ids are delivered; whoever looks earlier does not put it off."""
        return max(self._hinted_at + _SOONEST * self._longest_s - time.monotonic(), 0.0)

    @property
    def _is_told(self) -> bool:
        """Whether hints, or ids where those are delivered, can be relied on."""
        source = self._delivery.source
        return self.listening is None or self.listening.is_live if source is None else source.is_live

    @property
    def _longest_s(self) -> float:
        return self.poll_s if self._is_told else min(self.poll_s, _BLIND_S)

    async def _rest(self) -> None:
        """Wait until it is time to look, or until hints cannot be relied on any more."""
        was_told, ends_at = self._is_told, time.monotonic() + self._pause()
        while not self._looks.is_set() and (left := ends_at - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _NOTICED_S)):
                    await self._looks.wait()
            if was_told and not self._is_told:  # guard: look-after-loss
                break
        self._looks.clear()

    def _pause(self) -> float:
        longest = self._longest_s if self._delivery.source is None else self._lanes_due_s / _SOONEST
        if self._next_due_s is not None:
            return max(min(self._next_due_s, longest), 0.001)
        return max(longest * random.uniform(_SOONEST, 1.0), 0.001)
