"""Everything that can happen to a job, or to a queue as a whole, as one catalogue."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.job import JobState


class EventType(StrEnum):
    """What has happened; terminal events come exactly once in a run of a job."""

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
    def _missing_(cls, value: object) -> "EventType | None":
        if not isinstance(value, str) or not value.startswith(("job:", "queue:")):
            return None
        return next((kind for kind in cls if kind.stored == value), cls.OTHER)

    @property
    def stored(self) -> str:
        """The spelling in a store: release 0.6 passes over what it does not know only where that begins with `job:`."""
        return self.value if self.value.startswith("job:") else f"job:{self.value}"


TERMINAL_EVENTS = frozenset({EventType.COMPLETED, EventType.FAILED, EventType.CANCELLED})


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the store has it.

    `seq` is the store's number. An event of a queue names no job: its `job_id` is 0, `kind` is empty, `state` None.
    """

    seq: int
    at: datetime
    type: EventType
    job_id: int
    kind: str
    queue: str
    state: JobState | None
    run: int
    claim: int
    attempt: int
    data: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def public_id(self) -> str:
        """The job's id as people see it; empty for an event of a queue."""
        return public_id.encode(self.job_id) if self.job_id else ""
