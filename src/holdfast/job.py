"""A job before it is stored (`NewJob`) and after (`JobRow`)."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from holdfast import phases, public_id
from holdfast.phases import PhaseRow, PhaseState

T = TypeVar("T")


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


class Answer(StrEnum):
    """What an operator's verb did to one job."""

    DONE = "done"
    REQUESTED = "requested"  # cancel: the running handler was marked and will be told
    WRONG_STATE = "wrong_state"
    UNIQUE_CLASH = "unique_clash"  # retry: `other` is the live job that holds the unique key
    EXPIRING = "expiring"  # retry: too close to the end of its retention
    NOT_FOUND = "not_found"


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
    extra: str | None = None
    parent: int | None = None


class ProgressRow(msgspec.Struct, frozen=True):
    """The last progress that a handler reported: of the whole job, and of the phase that it was in."""

    percent: float | None
    message: str | None
    data: Any
    updated_at: datetime
    phase: str | None = None
    phase_percent: float | None = None


class AttemptRow(msgspec.Struct, frozen=True):
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


class LogRow(msgspec.Struct, frozen=True):
    """A line that a handler logged."""

    claim: int
    line: int
    at: datetime
    level: str
    text: str


class DeliveryTryRow(msgspec.Struct, frozen=True):
    """One try to post a message."""

    at: datetime
    status: int | None = None
    error: str | None = None
    took_ms: int = 0


class DeliveryRow(msgspec.Struct, frozen=True):
    """A webhook message about the end of one life of a job."""

    life: int
    event: str
    url: str
    state: str
    tries: int
    at: datetime
    next_at: datetime | None = None
    ended_at: datetime | None = None
    log: list[DeliveryTryRow] = msgspec.field(default_factory=list)


class WebhookWish(msgspec.Struct, frozen=True):
    """Where the end of a job is posted, in its `extra`."""

    url: str
    events: list[str] | None = None


# The notes that Holdfast keeps in `extra`. Another program may have written them: what has another form is left out.
_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_NOTES: dict[str, Any] = {
    "phases": list[tuple[Annotated[str, Meta(min_length=1)], Annotated[float, Meta(gt=0)]]],
    "on_restart": Literal["fail", "requeue"],
    "webhook": WebhookWish,
    "estimate": _Natural,
    "permit_at": _Natural,
    "unreadable": list[str],  # of a job that a server has shown
} | dict.fromkeys(("traceparent", "tracestate", "cancelled_by", "cancel_reason", "traceback", "ended_by"), str)

_PHASE_ENDS = {
    JobState.CANCELLED: PhaseState.CANCELLED,
    JobState.FAILED: PhaseState.FAILED,
    JobState.COMPLETED: PhaseState.COMPLETED,
    JobState.COMPLETED_WITH_ERRORS: PhaseState.COMPLETED,
}


class JobRow(msgspec.Struct, frozen=True, gc=False):
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
    phases_json: str | None = None
    items_json: str | None = None
    logs_json: str | None = None
    deliveries_json: str | None = None

    def __repr__(self) -> str:
        return f"<Job {self.public_id} {self.kind} {self.state}>"  # without its arguments, which may hold secrets

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
        return _read(self.tags_json, dict[str, str], {})

    @property
    def extra(self) -> dict[str, Any]:
        """What is kept with the job and never searched for; a note of an unknown form is left out."""
        notes = _read(self.extra_json, dict[str, Any], {})
        return {
            name: note for name, note in notes.items() if name not in _NOTES or _mistake(note, _NOTES[name]) is None
        }

    @property
    def progress(self) -> ProgressRow | None:
        """The last progress reported, if any."""
        return _read(self.progress_json, ProgressRow, None)

    @property
    def attempts(self) -> list[AttemptRow]:
        """The ended claims, oldest first, at most the last hundred."""
        return _read(self.attempts_json, list[AttemptRow], [])

    @property
    def phases(self) -> list[PhaseRow]:
        """The phases, in order, with those that have not begun; of an ended job none goes on."""
        stored = _read(self.phases_json, list[PhaseRow], [])
        plan: phases.Plan = [(name, weight) for name, weight in self.extra.get("phases", ())]
        progress = self.progress
        return [
            phases.closed(self._seen(phase, progress), _PHASE_ENDS.get(self.state), self.error)
            for phase in phases.with_planned(stored, plan)
        ]

    def _seen(self, phase: PhaseRow, progress: ProgressRow | None) -> PhaseRow:
        """Show how far a phase is that has not ended; one that nobody works on at present waits."""
        if phase.state is not PhaseState.RUNNING:
            return phase
        if progress is not None and progress.phase == phase.name:
            phase = msgspec.structs.replace(
                phase, percent=progress.phase_percent, message=progress.message, data=progress.data
            )
        if self.state in WAITING or (self.state is JobState.RUNNING and phase.claim != self.claim):
            return msgspec.structs.replace(phase, state=PhaseState.PENDING)
        return phase

    @property
    def phase(self) -> str | None:
        """The phase that the job is in, or was in last."""
        return None if self.progress is None else self.progress.phase

    @property
    def items(self) -> dict[str, Any]:
        """The sets of items, each in one shape: for `editions` the keys `editions_total`, `editions_completed`, ..."""
        return {
            name: {
                key: value
                for key, value in shape.items()
                if key.startswith(f"{name}_") and isinstance(value, int if key == f"{name}_total" else list)
            }
            for name, shape in _read(self.items_json, _Items, {}).items()
        }

    @property
    def logs(self) -> list[LogRow]:
        """The lines that its handler logged, oldest first."""
        return _read(self.logs_json, list[LogRow], [])

    @property
    def deliveries(self) -> list[DeliveryRow]:
        """The webhook messages about its ends, and what became of them."""
        return _read(self.deliveries_json, list[DeliveryRow], [])

    @property
    def unreadable(self) -> list[str]:
        """What of the row cannot be read, and is left out; only another program writes such rows."""
        return [*self.extra.get("unreadable", ()), *_mistakes(self)]

    @property
    def webhook_sent(self) -> bool:
        """Whether the message about the end of this life was taken by its receiver."""
        return any(delivery.state == "delivered" and delivery.life == self.life for delivery in self.deliveries)

    @property
    def is_finished(self) -> bool:
        """Whether this life of the job has ended."""
        return self.state in TERMINAL


_Items = dict[str, dict[str, Any]]
_FORMS: dict[str, Any] = {
    "tags": dict[str, str],
    "extra": dict[str, Any],
    "progress": ProgressRow,
    "attempts": list[AttemptRow],
    "phases": list[PhaseRow],
    "items": _Items,
    "logs": list[LogRow],
    "deliveries": list[DeliveryRow],
}


def _read(text: str | None, form: type[T], otherwise: T) -> T:
    """Read JSON of a row."""
    if text is None:
        return otherwise
    try:
        return msgspec.json.decode(text, type=form)
    except msgspec.DecodeError:
        return otherwise


def _mistake(note: Any, form: Any) -> str | None:
    try:
        msgspec.convert(note, form)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _mistakes(job: JobRow) -> Iterator[str]:
    for name, form in _FORMS.items():
        text = getattr(job, f"{name}_json")
        if text is None:
            continue
        try:
            msgspec.json.decode(text, type=form)
        except msgspec.DecodeError as error:
            yield f"{name}: {error}"
    for name, note in _read(job.extra_json, dict[str, Any], {}).items():
        if name in _NOTES and (mistake := _mistake(note, _NOTES[name])) is not None:
            yield f"extra.{name}: {mistake}"
