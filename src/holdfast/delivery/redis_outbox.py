"""Ids on their way to one Redis server, after the commit and outside of any transaction."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from holdfast.delivery.delivery import Ready
from holdfast.delivery.redis_link import Link, Lost

_logger = logging.getLogger("holdfast")

Handed = Callable[[Sequence[Ready]], None]

BATCH = 5_000
_PAUSES_S = (0.05, 0.25)  # after the first try and after the second
_TRYING_S = 0.5


class Outbox:
    """Gathers the ids of one shard and pushes them; while one batch is under way the next one gathers.

    What could not be pushed is handed to `dropped` and forgotten, for the store knows it and the sweep announces it.
    """

    def __init__(self, link: Link, pushed: Handed, dropped: Handed) -> None:
        self.failures = 0
        self._link = link
        self._pushed = pushed
        self._dropped = dropped
        self._gathered: list[Ready] = []
        self._sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._gathered)

    def add(self, jobs: Sequence[Ready]) -> None:
        """Push these with the next batch."""
        self._gathered.extend(jobs)
        if self._sender is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # outside of an event loop there is nobody to push them
            self._drop_all()
            return
        self._sender = loop.create_task(self._send_all(), name=f"holdfast pushes to {self._link.shard.name}")

    async def close(self, farewell_s: float) -> None:
        """Let the last ids go out, at most for a moment."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=farewell_s)
        self._drop_all()  # so that it ends with its batch, should the client library swallow the cancellation
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            while self._gathered:
                if not self._link.pushes.allows():
                    self._drop_all()
                    return
                batch, self._gathered = self._gathered[:BATCH], self._gathered[BATCH:]
                await self._send(batch)
        finally:
            # No await lies between the last look at the gathered ids and this line, so none is left behind.
            self._sender = None

    async def _send(self, batch: list[Ready]) -> None:
        left = batch
        try:
            left = await self._try(batch)
        finally:
            if left:
                self._dropped(left)
        if left:
            self.failures += 1

    async def _try(self, batch: list[Ready]) -> list[Ready]:
        """Try a few times within half a second; give back what could not be pushed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _TRYING_S
        left, error = batch, Lost("refused")
        for pause_s in (*_PAUSES_S, 0.0):
            try:
                refused = await self._link.add(left)
            except Lost as lost:
                refused, error = left, lost
            if len(refused) < len(left):
                there = set(refused)
                self._pushed([job for job in left if job not in there])
                self._link.pushes.succeeded()
            left = refused
            # One that holds its tongue until the deadline, or did so before, is not asked twice.
            if not left or not pause_s or self._link.pushes.is_open or loop.time() + pause_s > end:
                break
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        if len(left) == len(batch):
            self._link.pushes.failed()
        self._link.tell(error)
        if left:
            _logger.debug("%d ids were not pushed to Redis shard %s: %s", len(left), self._link.shard.name, error)
        return left

    def _drop_all(self) -> None:
        jobs, self._gathered = self._gathered, []
        if jobs:
            self._dropped(jobs)
