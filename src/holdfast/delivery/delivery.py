"""What carries hints from those who enqueue to those who work; losing every hint costs latency and nothing else."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.stores.store import Listening

CANCEL_HINT = "!cancel"
"""Takes the place of a queue's name in a hint that running jobs were cancelled; no queue can be called so."""


class Delivery(Protocol):
    """A way for hints, within one event loop."""

    def announce(self, queues: Iterable[str]) -> None:
        """Hint that jobs of these queues were committed; it returns at once and never raises."""

    def wakeups(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Call `wake` on this event loop with the name of a queue, whenever jobs of it may run."""

    async def close(self) -> None:
        """Let the last hints go out, at most for a moment."""
