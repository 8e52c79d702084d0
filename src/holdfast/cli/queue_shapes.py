"""What `queues families --json` and `queues show --json` print."""

from datetime import datetime

import msgspec

from holdfast.client.families import QueueFamily


class TuningShape(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers one instance gives to a queue, and why."""

    instance: str
    workers: int
    lowest: int
    highest: int
    reason: str
    changed_at: datetime | None


class FamilyShape(msgspec.Struct, frozen=True, kw_only=True):
    """`queues show --json`, and each entry of `queues families --json`."""

    name: str
    description: str | None
    priority: int | None
    colour: str | None
    workers: int | None
    max_workers: int | None
    poll_ms: int | None
    sla_ms: int | None
    age_after_ms: int | None
    age_share: int | None
    escalation: str | None
    paused: bool
    p95_ms: int | None
    starts: int | None
    oldest_ms: int | None
    waiting: int | None
    looked_at: datetime | None
    breached_at: datetime | None
    tunings: list[TuningShape]


class FamiliesShape(msgspec.Struct, frozen=True):
    """`queues families --json`."""

    queues: list[FamilyShape]


def family(found: QueueFamily) -> FamilyShape:
    """Describe a queue, what is published of it, and how it does."""
    waits = found.waits
    return FamilyShape(
        name=found.row.name,
        description=found.description,
        priority=found.priority,
        colour=found.colour,
        workers=found.workers,
        max_workers=found.max_workers,
        poll_ms=found.poll_ms,
        sla_ms=found.sla_ms,
        age_after_ms=found.age_after_ms,
        age_share=found.age_share,
        escalation=found.escalation,
        paused=found.row.paused_at is not None,
        p95_ms=None if waits is None else waits.p95_ms,
        starts=None if waits is None else waits.starts,
        oldest_ms=None if waits is None else waits.oldest_ms,
        waiting=None if waits is None else waits.waiting,
        looked_at=None if waits is None else waits.looked_at,
        breached_at=waits.breached_at if waits is not None and found.is_late else None,
        tunings=[
            TuningShape(
                instance=tuning.instance,
                workers=tuning.workers,
                lowest=tuning.lowest,
                highest=tuning.highest,
                reason=tuning.reason,
                changed_at=tuning.changed_at,
            )
            for tuning in found.tunings
        ],
    )
