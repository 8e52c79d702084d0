"""Somebody who is woken, and remembers for which queues."""

import asyncio

from holdfast.stores.store import Listening
from tests.support.wait import PATIENCE_S, until


class Heard:
    """Takes the place of a worker: `store.listen(queues, heard)`."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, queue: str) -> None:
        self.queues.append(queue)
        self._changed.set()

    def forget(self) -> None:
        """Forget what was heard so far."""
        self.queues.clear()

    async def wait_for(self, queue: str) -> None:
        """Wait until this queue is heard of, if it was not already."""
        async with asyncio.timeout(PATIENCE_S):
            while queue not in self.queues:
                self._changed.clear()
                await self._changed.wait()


async def until_live(listening: Listening) -> None:
    """Wait until hints can be relied on."""
    await until(lambda: listening.is_live, "hints arrive")
