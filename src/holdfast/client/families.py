"""Queues with all that is known of them: what is published, how long jobs wait, how many workers they have and why."""

import msgspec

from holdfast.stores.sla import SlaRow, Tuning
from holdfast.stores.values import QueueRow


class _Published(msgspec.Struct, frozen=True):
    priority: int | None = None
    colour: str | None = None
    workers: int | None = None
    max_workers: int | None = None
    poll_ms: int | None = None
    sla_ms: int | None = None
    age_after_ms: int | None = None
    age_share: int | None = None
    escalation: str | None = None
    description: str | None = None


class QueueFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, what is published of it, and how it does; times in milliseconds, None where nothing is said or known.

    `waits` has the wait that 5 of 100 reach or pass, of the last five minutes, and since when the promise `sla_ms` is
    broken. `tunings` say how many workers each instance gives it, and why, if that number may change.
    """

    row: QueueRow
    priority: int | None = None
    colour: str | None = None
    workers: int | None = None
    max_workers: int | None = None
    poll_ms: int | None = None
    sla_ms: int | None = None
    age_after_ms: int | None = None
    age_share: int | None = None
    escalation: str | None = None
    description: str | None = None
    waits: SlaRow | None = None
    tunings: tuple[Tuning, ...] = ()

    @property
    def is_late(self) -> bool:
        """Whether its promise is broken."""
        return self.waits is not None and self.waits.breached_at is not None and self.waits.ended_at is None


def family(row: QueueRow, published: str | None, waits: SlaRow | None, tunings: tuple[Tuning, ...]) -> QueueFamily:
    """Put together what is known of one queue."""
    found = _Published() if published is None else msgspec.json.decode(published, type=_Published)
    return QueueFamily(row=row, waits=waits, tunings=tunings, **msgspec.structs.asdict(found))
