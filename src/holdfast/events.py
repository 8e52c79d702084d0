"""Everything that can happen to a job, or to a queue as a whole, as one catalogue."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.job import JobState


class EventKind(StrEnum):
    """What an event says; terminal ones come exactly once per life of a job."""

    ENQUEUED = "job:enqueued"
    STARTED = "job:started"
    PROGRESS = "job:progress"
    PHASE_COMPLETED = "job:phase:completed"
    RETRYING = "job:retrying"
    COMPLETED = "job:completed"
    FAILED = "job:failed"
    CANCELLED = "job:cancelled"
    RESCUED = "job:rescued"
    INTERRUPTED = "job:interrupted"
    STALE = "job:stale"
    DELETED = "job:deleted"
    WEBHOOK_DELIVERED = "job:webhook:delivered"
    WEBHOOK_FAILED = "job:webhook:failed"
    SLA_BREACHED = "queue:sla:breached"
    SLA_KEPT = "queue:sla:kept"
    OTHER = "job:other"  # something that only a later release knows

    @classmethod
    def _missing_(cls, value: object) -> "EventKind | None":
        if not isinstance(value, str) or not value.startswith(("job:", "queue:")):
            return None
        return next((kind for kind in cls if kind.stored == value), cls.OTHER)

    @property
    def stored(self) -> str:
        """The spelling in a store: release 0.6 passes over what it does not know only where that begins with `job:`."""
        return self.value if self.value.startswith("job:") else f"job:{self.value}"


TERMINAL_EVENTS = frozenset({EventKind.COMPLETED, EventKind.FAILED, EventKind.CANCELLED})


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job, or to a queue; it was committed before anybody hears of it.

    `seq` is the store's number. The events of one job come in the order in which they happened. `data` has what there
    is to say beyond the state: an error, how far a handler is, which phase has ended. What is told of a queue names no
    job: its `job_id` is 0, its `task` empty, its `state` None.
    """

    seq: int
    at: datetime
    kind: EventKind
    job_id: int
    task: str
    queue: str
    state: JobState | None
    life: int
    claim: int
    attempt: int
    data: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def public_id(self) -> str:
        """The job's id as people see it; empty where a queue is told of."""
        return public_id.encode(self.job_id) if self.job_id else ""
