"""The names of everything that can happen to a job."""

from enum import StrEnum


class EventKind(StrEnum):
    """What an event says; terminal ones come exactly once per life of a job."""

    ENQUEUED = "job:enqueued"
    STARTED = "job:started"
    RETRYING = "job:retrying"
    COMPLETED = "job:completed"
    FAILED = "job:failed"
    CANCELLED = "job:cancelled"
    RESCUED = "job:rescued"
    INTERRUPTED = "job:interrupted"
    DELETED = "job:deleted"
