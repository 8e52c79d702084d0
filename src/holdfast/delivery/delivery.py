"""What carries hints from those who enqueue to those who work; losing every hint costs latency and nothing else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.stores.store import EVERY_HINT, Listening
from holdfast.stores.values import Ready

__all__ = ["CANCEL_HINT", "EVERY_HINT", "SCHEDULES_HINT", "Delivery", "Ready", "Source"]

CANCEL_HINT = "!cancel"
"""Takes the place of a queue's name in a hint that running jobs were cancelled; no queue can be called so."""

SCHEDULES_HINT = "!schedules"
"""The same for schedules that were changed."""


class Source(Protocol):
    """Where workers get the ids of jobs from, which they then claim in the store through the same gates as any."""

    @property
    def is_live(self) -> bool:
        """Whether ids can be relied on at present; while they cannot, workers read their lanes more often."""

    async def pop(self, rooms: Mapping[str, int], limit: int) -> list[Ready]:
        """Wait for ids and take some, at most `limit` in all and as many of each queue as it has room; never raises.

        Cancelling it while it waits loses nothing but at most one hint per server.
        """

    def settled(self, job_id: int) -> None:
        """Take note that an id needs this worker no more: its claim has ended here, or could not be made."""

    async def put_back(self, jobs: Sequence[Ready]) -> None:
        """Leave ids to other workers that cannot be claimed here now; never raises."""


class Delivery(Protocol):
    """A way for hints, within one event loop."""

    source: Source | None
    """Where ids come from, for a delivery that carries them."""

    def announce(self, jobs: Iterable[Ready]) -> None:
        """Hint that these jobs were committed and may run; it returns at once and never raises."""

    def hint(self, queues: Iterable[str]) -> None:
        """Hint that jobs of these queues may run, or `CANCEL_HINT`; it returns at once and never raises."""

    def wakeups(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Call `wake` on this event loop with the name of a queue, whenever jobs of it may run."""

    async def close(self) -> None:
        """Let the last hints go out, at most for a moment."""
