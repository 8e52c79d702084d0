"""A job before it is stored (`NewJob`) and after (`Job`)."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast import public_id


class JobState(StrEnum):
    """Where a job stands; the moves between the states are in `transitions`."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"


WAITING = frozenset({JobState.BLOCKED, JobState.SCHEDULED, JobState.QUEUED, JobState.HELD})
LIVE = WAITING | {JobState.RUNNING}
TERMINAL = frozenset(JobState) - LIVE
RETRYABLE = TERMINAL - {JobState.COMPLETED}


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an insert needs; times are an absolute `run_at` or a `delay_ms` by the store's clock."""

    id: int
    kind: str
    queue: str
    priority: int
    payload: str
    run_at: datetime | None = None
    delay_ms: int | None = None
    unique: str | None = None
    unique_for_ms: int | None = None
    key: str | None = None
    max_attempts: int
    max_crashes: int
    timeout_ms: int | None
    tags: dict[str, str] | None = None
    actor: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """The last progress that a handler reported."""

    percent: float | None
    message: str | None
    data: Any
    updated_at: datetime


class Attempt(msgspec.Struct, frozen=True):
    """One ended claim of a job: who had it, when, and how it ended."""

    claim: int
    attempt: int
    worker: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    error_class: str | None = None
    error: str | None = None
    traceback: str | None = None


class Job(msgspec.Struct, frozen=True, gc=False):
    """One row of the store, live or finished; the field order is the column order of every query that reads jobs.

    It holds texts, numbers and times only, so it can be part of no cycle: the garbage collector need not look at it.
    """

    id: int
    kind: str
    queue: str
    priority: int
    state: JobState
    position: int | None
    payload_json: str
    tags_json: str | None
    actor: str | None
    run_at: datetime
    enqueued_at: datetime
    enqueued_seq: int | None
    claim: int
    life: int
    attempt: int
    max_attempts: int
    crashes: int
    max_crashes: int
    timeout_ms: int | None
    worker: int | None
    claim_batch: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    cancel_requested_at: datetime | None
    announced_at: datetime | None
    unique_key: str | None
    idempotency_key: str | None
    limit_key: str | None
    fifo_key: str | None
    debounce_key: str | None
    schedule: str | None
    fire_time: datetime | None
    parent: int | None
    workflow: int | None
    pending: int | None
    origin: int | None
    error_class: str | None
    error: str | None
    error_fingerprint: str | None
    extra_json: str | None
    stale_at: datetime | None
    delete_at: datetime | None
    finished_at: datetime | None = None
    result_json: str | None = None
    progress_json: str | None = None
    attempts_json: str | None = None

    @property
    def public_id(self) -> str:
        """The id as people see it."""
        return public_id.encode(self.id)

    @property
    def payload(self) -> Any:
        """The arguments, as plain JSON values."""
        return msgspec.json.decode(self.payload_json)

    @property
    def result(self) -> Any:
        """What the handler returned, as plain JSON values."""
        return None if self.result_json is None else msgspec.json.decode(self.result_json)

    @property
    def tags(self) -> dict[str, str]:
        """The tags."""
        return {} if self.tags_json is None else msgspec.json.decode(self.tags_json, type=dict[str, str])

    @property
    def extra(self) -> dict[str, Any]:
        """What is kept with the job and never searched for."""
        return {} if self.extra_json is None else msgspec.json.decode(self.extra_json, type=dict[str, Any])

    @property
    def progress(self) -> Progress | None:
        """The last progress reported, if any."""
        return None if self.progress_json is None else msgspec.json.decode(self.progress_json, type=Progress)

    @property
    def attempts(self) -> list[Attempt]:
        """The ended claims, oldest first, at most the last hundred."""
        return [] if self.attempts_json is None else msgspec.json.decode(self.attempts_json, type=list[Attempt])

    @property
    def is_finished(self) -> bool:
        """Whether this life of the job has ended."""
        return self.state in TERMINAL
