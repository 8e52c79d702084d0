"""The process that an instance lives in, as the instance sees it."""

from typing import Protocol

from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Hello


class Parent(Protocol):
    """What an instance needs of the process that it lives in."""

    @property
    def is_told(self) -> bool:
        """Whether the instance leaves."""

    async def told(self) -> None:
        """Wait until the instance is told to leave."""

    async def halted(self) -> None:
        """Wait until it is told again."""

    async def sleep(self, seconds: float) -> None:
        """Wait a while, or until the instance is told to leave."""

    def leave(self) -> None:
        """Leave without a signal: there is nothing more to do."""

    def interrupted(self) -> None:
        """Remember that something could not end in time."""

    async def spawn(self) -> Offspring:
        """Start a child."""

    async def greeted(self, child: Offspring) -> Hello | str:
        """Wait until a child has imported the app, or until it is known why there will be no greeting."""

    def forget(self, child: Offspring) -> None:
        """Take note that a child is gone, with everything it had started."""
