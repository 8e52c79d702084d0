"""What all services of the leader have in common: they do rounds, which are counted."""

from typing import ClassVar, Protocol

import msgspec


class Round(msgspec.Struct, frozen=True):
    """What one round of a service did.

    `scanned` rows were looked at and `moved` ones changed, `failures` did not work;
    `lag_ms` is how late the latest was. `next_s` says when the next round is due, if earlier than the interval.
    """

    scanned: int = 0
    moved: int = 0
    failures: int = 0
    lag_ms: int = 0
    next_s: float | None = None
    has_more: bool = False


class LeaderService(Protocol):
    """One service; any number of processes may run it at once, and one is enough."""

    name: ClassVar[str]

    async def run(self, batch: int) -> Round:
        """Do one round, at most `batch` of whatever it is."""
