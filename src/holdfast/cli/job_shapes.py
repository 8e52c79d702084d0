"""What `--json` prints of jobs; the rules are those of `shapes`."""

from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.client.covering import Covering
from holdfast.events import Event
from holdfast.handle import JobHandle
from holdfast.job import Attempt, DeliveryRow, Job, JobState, LogLine, Progress
from holdfast.payload import covered, covered_json
from holdfast.phases import JobPhase
from holdfast.stores.values import Answered


class EnqueuedShape(msgspec.Struct, frozen=True):
    """`enqueue --json`."""

    id: str
    public_id: str
    created: bool


class JobShape(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs show --json`, and each entry of `jobs list --json`."""

    id: str
    public_id: str
    kind: str
    queue: str
    priority: int
    state: JobState
    payload: msgspec.Raw
    result: msgspec.Raw
    progress: Progress | None
    tags: dict[str, str]
    actor: str | None
    attempt: int
    max_attempts: int
    crashes: int
    max_crashes: int
    life: int
    claim: int
    worker: int | None
    timeout_ms: int | None
    unique_key: str | None
    idempotency_key: str | None
    enqueued_at: datetime
    run_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    delete_at: datetime | None
    cancelled_by: str | None
    cancel_reason: str | None
    error_class: str | None
    error: str | None
    error_fingerprint: str | None
    traceback: str | None
    attempts: list[Attempt]
    stale_at: datetime | None
    phases: list[JobPhase]
    items: dict[str, Any]
    logs: list[LogLine]
    deliveries: list[DeliveryRow]
    webhook_sent: bool
    parent_id: str | None
    parent_public_id: str | None
    origin_id: str | None
    origin_public_id: str | None
    unreadable: list[str]


class JobsShape(msgspec.Struct, frozen=True):
    """`jobs list --json`; `next` is the cursor for `--after`, null on the last page.

    `searched_to` is null unless time was over before the page was full: older jobs were not looked at yet.
    """

    jobs: list[JobShape]
    next: str | None
    searched_to: datetime | None = None


class AnswerShape(msgspec.Struct, frozen=True):
    """One job of `jobs cancel|retry|delete --json`; `error` is null when it was done."""

    id: str
    public_id: str
    answer: str
    state: JobState | None
    error: str | None


class AnswersShape(msgspec.Struct, frozen=True):
    """`jobs cancel|retry|delete --json`."""

    jobs: list[AnswerShape]


class EventShape(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `jobs watch|tail --json`; `kind` is that of the job, `data` what there is to say beyond its state."""

    event: str
    at: datetime
    id: str
    public_id: str
    kind: str
    queue: str
    state: JobState | None
    life: int
    claim: int
    attempt: int
    data: dict[str, Any]


class LineShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler logged, in `jobs tail --logs --json`; `event` is `log`."""

    event: str
    at: datetime
    id: str
    public_id: str
    kind: str
    queue: str
    claim: int
    level: str
    text: str


class LogsShape(msgspec.Struct, frozen=True):
    """`jobs logs --json`."""

    id: str
    public_id: str
    logs: list[LogLine]


class WaitedShape(msgspec.Struct, frozen=True, kw_only=True):
    """One job of `jobs wait --json`; `state` is null when it was not found, `ended` false when it goes on."""

    id: str
    public_id: str
    state: JobState | None
    ended: bool
    result: msgspec.Raw
    error_class: str | None
    error: str | None


class WaitedJobsShape(msgspec.Struct, frozen=True):
    """`jobs wait --json`."""

    jobs: list[WaitedShape]


class EnqueuedWaitedShape(WaitedShape, frozen=True, kw_only=True):
    """`enqueue --wait --json`."""

    created: bool


class WhyShape(msgspec.Struct, frozen=True):
    """`jobs why --json`; what `details` holds follows from the reason."""

    id: str
    public_id: str
    reason: str
    sentence: str
    details: dict[str, Any]


def enqueued(handle: JobHandle[Any]) -> EnqueuedShape:
    """Describe an enqueued job."""
    return EnqueuedShape(str(handle.id), handle.public_id, handle.created)


def job(found: Job) -> JobShape:
    """Describe a job."""
    covering = Covering(found)
    same = {name: getattr(found, name) for name in JobShape.__struct_fields__ if name in Job.__struct_fields__}
    return JobShape(
        **same
        | {
            "id": str(found.id),
            "public_id": found.public_id,
            "payload": msgspec.Raw(covered_json(found.payload_json).encode()),
            "result": msgspec.Raw(covering.json(found.result_json or "null").encode()),
            "progress": covering.progress,
            "tags": found.tags,
            "cancelled_by": found.extra.get("cancelled_by"),
            "cancel_reason": found.extra.get("cancel_reason"),
            "traceback": found.extra.get("traceback"),
            "attempts": found.attempts,
            "phases": covering.phases,
            "items": found.items,
            "logs": found.logs,
            "deliveries": found.deliveries,
            "webhook_sent": found.webhook_sent,
            "unreadable": found.unreadable,
            **_named("parent", found.parent),
            **_named("origin", found.origin),
        }
    )


def event(happened: Event) -> EventShape:
    """Describe what happened to a job."""
    return EventShape(
        event=happened.kind.value,
        at=happened.at,
        id=str(happened.job_id),
        public_id=happened.public_id,
        kind=happened.task,
        queue=happened.queue,
        state=happened.state,
        life=happened.life,
        claim=happened.claim,
        attempt=happened.attempt,
        data=covered(happened.data),
    )


def logs(found: Job) -> LogsShape:
    """Describe what the handler of a job logged."""
    return LogsShape(str(found.id), found.public_id, found.logs)


def answer(answered: Answered, error: str | None) -> AnswerShape:
    """Describe what a verb did to one job."""
    return AnswerShape(str(answered.id), public_id.encode(answered.id), answered.answer.value, answered.state, error)


def waited(job_id: int, found: Job | None) -> WaitedShape:
    """Describe what became of a job that was waited for."""
    return WaitedShape(**_waited(job_id, found))


def enqueued_and_waited(handle: JobHandle[Any], job_id: int, found: Job | None) -> EnqueuedWaitedShape:
    """Describe an enqueued job, and what became of it."""
    return EnqueuedWaitedShape(**_waited(job_id, found), created=handle.created)


def waited_anew(job_id: int, found: Job | None, *, is_new: bool) -> EnqueuedWaitedShape:
    """Describe a job that a server stored, and what became of it."""
    return EnqueuedWaitedShape(**_waited(job_id, found), created=is_new)


def _named(what: str, job_id: int | None) -> dict[str, str | None]:
    """Name a job that another one came of."""
    if job_id is None:
        return {f"{what}_id": None, f"{what}_public_id": None}
    return {f"{what}_id": str(job_id), f"{what}_public_id": public_id.encode(job_id)}


def _result(found: Job | None) -> str:
    return "null" if found is None else Covering(found).json(found.result_json or "null")


def _waited(job_id: int, found: Job | None) -> dict[str, Any]:
    return {
        "id": str(job_id),
        "public_id": public_id.encode(job_id),
        "state": None if found is None else found.state,
        "ended": found is not None and found.is_finished,
        "result": msgspec.Raw(_result(found).encode()),
        "error_class": None if found is None else found.error_class,
        "error": None if found is None else found.error,
    }
