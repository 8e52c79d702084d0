"""The answer to "why is this job not running?"."""

from enum import StrEnum


class Reason(StrEnum):
    """What keeps a job where it is, in one word."""

    FINISHED = "finished"
    STOPPING = "stopping"  # it has ended by force, and its handler may still be at work
    RUNNING = "running"
    BUFFERED = "buffered"  # a worker has it and has not started it
    WORKER_LOST = "worker_lost"
    LOCK = "lock"
    PAUSED = "paused"
    CLOSED = "closed"  # a handler of its queue was told to slow down
    SCHEDULED = "scheduled"
    OVERDUE = "overdue"  # nobody has made it ready
    LIMIT = "limit"
    THROTTLE = "throttle"
    ROTATION = "rotation"
    FIFO = "fifo"
    BUDGET = "budget"
    BLOCKED = "blocked"
    NO_WORKER = "no_worker"
    UNKNOWN_KIND = "unknown_kind"
    BUSY = "busy"
    READY = "ready"
