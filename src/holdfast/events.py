"""Everything that can happen to a job, as one catalogue."""

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
    OTHER = "job:other"  # something that only a later release knows

    @classmethod
    def _missing_(cls, value: object) -> "EventKind | None":
        return cls.OTHER if isinstance(value, str) and value.startswith("job:") else None


TERMINAL_EVENTS = frozenset({EventKind.COMPLETED, EventKind.FAILED, EventKind.CANCELLED})


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job; it was committed before anybody hears of it.

    `seq` is the store's number. The events of one job come in the order in which they happened. `data` has what there
    is to say beyond the state: an error, how far a handler is, which phase has ended.
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
        """The job's id as people see it."""
        return public_id.encode(self.job_id)
