"""How long jobs wait: the heads of lanes, their SLA, and how many workers follow from it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.events import EventType
from holdfast.stores.alarms import Alarm


class LaneHead(msgspec.Struct, frozen=True):
    """A lane that has jobs which may run, and for how long its first one has been due, by the store's clock."""

    queue: str
    priority: int
    waited_ms: int


class QueueWaits(msgspec.Struct, frozen=True):
    """How long jobs of a queue have waited lately, as the histogram of `rollup`, and for how long the oldest has.

    A pause does not count as waiting: in a paused queue nothing is late, in a resumed one time begins anew.
    """

    queue: str
    wait: dict[int, int]
    oldest_ms: int | None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at a queue has found: waits in milliseconds, None where there is nothing to tell.

    `p95_ms` is the wait that 95 of 100 starts of the last five minutes stayed below, `oldest_ms` for how long the first
    job in line has been due. `is_late` says that either passes the SLA of `sla_ms`.
    """

    queue: str
    sla_ms: int | None
    p95_ms: int | None
    starts: int
    oldest_ms: int | None
    waiting: int
    is_late: bool


class SlaRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the waits of a queue; `breached_at` is when its SLA was broken, while it is.

    `told_at` is when that was told to whoever is concerned. A breach that has ended and was not told so has an
    `ended_at`.
    """

    queue: str
    sla_ms: int | None
    p95_ms: int | None
    starts: int
    oldest_ms: int | None
    waiting: int
    looked_at: datetime
    breached_at: datetime | None
    ended_at: datetime | None
    told_at: datetime | None


class TuningRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a queue one worker instance runs at once, between which bounds, and why."""

    instance: str
    queue: str
    workers: int
    lowest: int
    highest: int
    reason: str
    changed_at: datetime | None = None


class QueuePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is published of a queue that waits and workers follow from, and what became of it at run time."""

    queue: str
    is_published: bool = False
    sla_ms: int | None = None
    poll_ms: int | None = None
    workers: int | None = None
    max_workers: int | None = None
    age_after_ms: int | None = None
    age_share: int | None = None
    escalation: str | None = None
    is_paused: bool = False
    resumed_at: datetime | None = None


class SlaStore(Protocol):
    """What is known of waits."""

    async def lane_heads(self, queues: Sequence[str]) -> list[LaneHead]:
        """Read the first job of every lane of these queues, unless they are paused; one entry of an index each."""

    async def queue_policies(self) -> list[QueuePolicy]:
        """Read what is published of queues that waits and workers follow from."""

    async def read_waits(self, queues: Sequence[str], within_ms: int) -> list[QueueWaits]:
        """Read how long jobs of these queues have waited for their start, and how long the oldest due one has by now.

        Whoever is due counts, whether it may run, is held, or nobody has made it ready yet; of each at most 10,001 are
        looked at.
        """

    async def look_at_waits(self, looks: Sequence[Look]) -> list[SlaRow]:
        """Enter what was found of queues, and forget all others; the answer is what is known now.

        The second late look in a row breaks an SLA, five minutes without one mend it. A look that follows another
        within a few seconds, as two leaders make it, counts for nothing. Unknown: the next look does the rest.
        """

    async def tell_breach(self, row: SlaRow, alarm: Alarm | None = None) -> bool:
        """Record a breach, or its end: the alarm and an event for those who watch, in one commit.

        False when it was recorded before, or the row is of another breach. Unknown: ask again; it is recorded once.
        """

    async def list_waits(self) -> list[SlaRow]:
        """Read what is known of the waits of queues."""


class TuningStore(Protocol):
    """How many workers each instance gives to queues whose number may change."""

    async def report_tunings(self, instance: str, tunings: Sequence[TuningRow]) -> None:
        """Say how many workers an instance gives to its queues, and why; unchanged ones cost no write.

        Unknown: ask again; the same is said twice.
        """

    async def list_tunings(self) -> list[TuningRow]:
        """Read what the living instances have said."""

    async def prune_tunings(self, limit: int) -> int:
        """Forget what instances said that are gone. Unknown: the next sweep does it."""


def told(row: SlaRow) -> tuple[EventType, str]:
    """Make of a breach, or of its end, the event that tells of it: its kind, and its data as JSON."""
    kind = EventType.SLA_BREACHED if row.ended_at is None else EventType.SLA_KEPT
    said = {
        "sla_ms": row.sla_ms,
        "p95_ms": row.p95_ms,
        "oldest_ms": row.oldest_ms,
        "waiting": row.waiting,
        "since": row.breached_at,
    }
    return kind, msgspec.json.encode({name: value for name, value in said.items() if value is not None}).decode()


class _Published(msgspec.Struct, frozen=True):
    sla_ms: int | None = None
    poll_ms: int | None = None
    workers: int | None = None
    max_workers: int | None = None
    age_after_ms: int | None = None
    age_share: int | None = None
    escalation: str | None = None


def read_policy(queue: str, published: str | None, *, is_paused: bool, resumed_at: datetime | None) -> QueuePolicy:
    """Read what a store keeps of one queue; what a later release has published and this one does not know is left."""
    found = _Published() if published is None else msgspec.json.decode(published, type=_Published)
    return QueuePolicy(
        queue=queue,
        is_published=published is not None,
        is_paused=is_paused,
        resumed_at=resumed_at,
        **msgspec.structs.asdict(found),
    )
