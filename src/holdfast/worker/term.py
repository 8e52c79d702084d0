"""A term of an instance: as long as one reading of the app and its configuration holds."""

import asyncio
import contextlib

from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Hello
from holdfast.worker.parent import Parent


class Term:
    """What an instance is told: it leaves with its supervisor, or when another term is about to begin."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._over = asyncio.Event()

    def end(self) -> None:
        """Let the instance leave, so that another can take its place."""
        self._over.set()

    @property
    def is_told(self) -> bool:
        """Whether the instance leaves."""
        return self._over.is_set() or self._parent.is_told

    async def told(self) -> None:
        """Wait until the instance is told to leave."""
        waits = [asyncio.ensure_future(wait) for wait in (self._over.wait(), self._parent.told())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def halted(self) -> None:
        """Wait until it is told again."""
        await self._parent.halted()

    async def sleep(self, seconds: float) -> None:
        """Wait a while, or until the instance is told to leave."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.told()

    def leave(self) -> None:
        """Leave without a signal: there is nothing more to do."""
        self._parent.leave()

    def interrupted(self) -> None:
        """Remember that something could not end in time; between two terms that is nobody's end."""
        if self._parent.is_told:
            self._parent.interrupted()

    async def spawn(self) -> Offspring:
        """Start a child."""
        return await self._parent.spawn()

    async def greeted(self, child: Offspring) -> Hello | str:
        """Wait until a child has imported the app, or until it is known why there will be no greeting."""
        return await self._parent.greeted(child)

    def forget(self, child: Offspring) -> None:
        """Take note that a child is gone, with everything it had started."""
        self._parent.forget(child)
