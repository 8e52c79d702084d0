"""Jobs as the API shows them: in lists, whole, and in parts."""

from typing import Any

from pydantic import Field

from holdfast import payload, public_id
from holdfast.client.covering import Covering
from holdfast.client.webhooks import deliveries
from holdfast.job import Attempt, Job, JobState
from holdfast.phases import PhaseState
from holdfast.resources.redaction import redact
from holdfast.resources.webhook import Delivery
from holdfast.server.api.shape import Moment, Shape, Told

ID = "htcx-2s16-z48b-09"
_MOMENT = "2026-11-16T09:30:00Z"
ITEM_STATES = ("failed", "skipped", "in_progress", "completed")


class ProgressShape(Shape):
    """How far a handler is, as it said last: in the whole job, and in the phase it is in."""

    percent: float | None = Field(None, examples=[42.0])
    message: Told | None = Field(None, examples=["420 of 1,000 rows"])
    data: Any = Field(None, examples=[{"rows": 420}])
    phase: str | None = Field(None, examples=["import"])
    phase_percent: float | None = Field(None, examples=[84.0])
    updated_at: Moment = Field(examples=[_MOMENT])


class JobShape(Shape):
    """A job, as lists show it."""

    id: str = Field(examples=[ID], description="Its public id.")
    kind: str = Field(examples=["send_email"])
    queue: str = Field(examples=["default"])
    priority: int = Field(examples=[5], description="0 goes first, 10 last.")
    state: JobState = Field(examples=["queued"])
    tags: dict[str, str] = Field(examples=[{"customer": "17"}])
    actor: str | None = Field(None, examples=["checkout"], description="On whose behalf it runs.")
    attempt: int = Field(examples=[0], description="How many attempts have begun.")
    max_attempts: int = Field(examples=[5])
    crashes: int = Field(examples=[0])
    life: int = Field(examples=[1], description="1, and one more for each retry by hand.")
    progress: ProgressShape | None = None
    enqueued_at: Moment = Field(examples=[_MOMENT])
    run_at: Moment = Field(examples=[_MOMENT])
    claimed_at: Moment | None = Field(None, examples=[_MOMENT])
    started_at: Moment | None = Field(None, examples=[_MOMENT])
    finished_at: Moment | None = Field(None, examples=[_MOMENT])
    cancel_requested_at: Moment | None = Field(None, examples=[_MOMENT])
    worker: int | None = Field(None, examples=[12])
    schedule: str | None = Field(None, examples=["nightly"])
    unique_key: str | None = Field(None, examples=["welcome:17"])
    parent: str | None = Field(None, examples=[ID], description="The job whose handler enqueued this one.")
    origin: str | None = Field(None, examples=[ID], description="The job that this one replays.")
    error_class: str | None = Field(None, examples=["ConnectionError"])
    error: Told | None = Field(None, examples=["the mail server does not answer"])
    error_fingerprint: Told | None = Field(None, examples=["ConnectionError send_email"])
    unreadable: list[Told] = Field(
        examples=[["extra.estimate: Expected `int`, got `str`"]],
        description="What of its row cannot be read, because another program wrote it, and is left out here.",
    )


class AttemptShape(Shape):
    """One ended claim of a job: who had it, when, and how it ended."""

    claim: int = Field(examples=[1])
    attempt: int = Field(examples=[1])
    worker: int | None = Field(None, examples=[12])
    claimed_at: Moment | None = Field(None, examples=[_MOMENT])
    started_at: Moment | None = Field(None, examples=[_MOMENT])
    ended_at: Moment = Field(examples=[_MOMENT])
    outcome: str = Field(examples=["retry"])
    error_class: str | None = Field(None, examples=["ConnectionError"])
    error: Told | None = Field(None, examples=["the mail server does not answer"])
    traceback: Told | None = None


class PhaseShape(Shape):
    """One phase of a job."""

    name: str = Field(examples=["import"])
    weight: float = Field(examples=[1.0])
    state: PhaseState = Field(examples=["running"])
    claim: int | None = Field(None, examples=[1], description="The claim that worked on it last.")
    percent: float | None = Field(None, examples=[84.0])
    message: Told | None = Field(None, examples=["420 of 500 rows"])
    data: Any = None
    error: Told | None = None
    result: Any = None
    started_at: Moment | None = Field(None, examples=[_MOMENT])
    ended_at: Moment | None = Field(None, examples=[_MOMENT])


class ItemCounts(Shape):
    """How many items of a set there are, and how they have ended."""

    total: int = Field(examples=[4])
    completed: int = Field(examples=[2])
    skipped: int = Field(examples=[1])
    failed: int = Field(examples=[1])
    in_progress: int = Field(examples=[0], description="Those that have not ended.")


class WholeJob(JobShape):
    """A job with all that is kept of it; what its task calls secret is covered."""

    args: Any = Field(None, examples=[{"to": "ada@example.org"}])
    result: Any = Field(None, examples=["sent"])
    timeout_ms: int | None = Field(None, examples=[300_000])
    max_crashes: int = Field(examples=[3])
    claim: int = Field(examples=[1], description="How often a worker has taken it.")
    key: str | None = Field(None, examples=["order-17"], description="Its idempotency key.")
    stale_at: Moment | None = Field(None, examples=[_MOMENT])
    delete_at: Moment | None = Field(None, examples=[_MOMENT], description="When it will be forgotten.")
    cancelled_by: str | None = Field(None, examples=["ada"])
    cancel_reason: Told | None = Field(None, examples=["the order was withdrawn"])
    traceback: Told | None = None
    phases: list[PhaseShape]
    items: dict[str, ItemCounts] = Field(
        examples=[{"pages": {"total": 4, "completed": 2, "skipped": 1, "failed": 1, "in_progress": 0}}]
    )
    attempts: list[AttemptShape]
    webhooks: list[Delivery]
    webhook_sent: bool = Field(examples=[False], description="Whether the receiver took the message about this end.")


class JobPage(Shape):
    """One page of jobs, newest first.

    `next` is where the next page begins, null on the last one. A search that takes long ends early: `searched_to` is
    then how far back it has looked, and the next page goes on from there.
    """

    jobs: list[JobShape]
    next: str | None = Field(None, examples=[f"{_MOMENT}/{ID}"])
    searched_to: Moment | None = Field(None, examples=[_MOMENT])


class WholePage(Shape):
    """One page of whole jobs."""

    jobs: list[WholeJob]
    next: str | None = Field(None, examples=[f"{_MOMENT}/{ID}"])
    searched_to: Moment | None = Field(None, examples=[_MOMENT])


class WhyShape(Shape):
    """Why a job stands where it stands: a sentence for people, and the same in parts for programs."""

    reason: str = Field(examples=["paused"])
    sentence: Told = Field(examples=["its queue default is paused by ada: the mail provider is down"])
    details: dict[str, Any] = Field(examples=[{"queue": "default"}])


class ChangeShape(Shape):
    """One change of a job's state."""

    at: Moment = Field(examples=[_MOMENT])
    source: JobState | None = Field(None, examples=["queued"])
    target: JobState = Field(examples=["running"])
    attempt: int = Field(examples=[1])
    worker: int | None = Field(None, examples=[12])
    reason: Told | None = Field(None, examples=["retry: the mail server does not answer"])


class ChangeList(Shape):
    """What has happened to a job, oldest first, as far as it is kept; at most the last hundred changes."""

    events: list[ChangeShape]


class LineShape(Shape):
    """A line that a handler logged."""

    claim: int = Field(examples=[1])
    line: int = Field(examples=[0])
    at: Moment = Field(examples=[_MOMENT])
    level: str = Field(examples=["INFO"])
    text: Told = Field(examples=["420 rows imported"])


class LineList(Shape):
    """What a handler logged, oldest first."""

    logs: list[LineShape]
    next: str | None = Field(None, examples=["1-99"])


class AttemptList(Shape):
    """The ended claims of a job, oldest first; at most the last hundred."""

    attempts: list[AttemptShape]


class ItemShape(Shape):
    """One item of a set."""

    set: str = Field(examples=["pages"])
    key: str = Field(examples=["page-1"])
    state: str = Field(examples=["failed"])
    note: Told | None = Field(None, examples=["TimeoutError: no answer"])


class ItemList(Shape):
    """Items of a job: those that failed first, then the skipped, the open and the completed ones."""

    items: list[ItemShape]
    next: str | None = Field(None, examples=["100"])


def job_shape(job: Job) -> JobShape:
    """Show a job in a list."""
    return JobShape(**_facts(job))


def whole_job(job: Job) -> WholeJob:
    """Show a job whole."""
    same = ("timeout_ms", "max_crashes", "claim", "stale_at", "delete_at", "webhook_sent")
    covering = Covering(job)
    known = _facts(job) | {name: getattr(job, name) for name in same}
    known |= {name: covering.text(job.extra.get(name)) for name in ("cancelled_by", "cancel_reason", "traceback")}
    return WholeJob(
        **known,
        args=payload.covered(job.payload),
        result=covering.value(job.result),
        key=job.idempotency_key,
        phases=[PhaseShape.model_validate(phase) for phase in covering.phases],
        items={name: item_counts(name, shape) for name, shape in job.items.items()},
        attempts=[attempt_shape(attempt) for attempt in job.attempts],
        webhooks=redact(deliveries(job.deliveries)),
    )


def attempt_shape(attempt: Attempt) -> AttemptShape:
    """Show an ended claim."""
    return AttemptShape.model_validate(attempt)


def item_counts(name: str, shape: dict[str, Any]) -> ItemCounts:
    """Count the items of a set."""
    ended = {state: len(shape.get(f"{name}_{state}", ())) for state in ITEM_STATES}
    return ItemCounts(total=shape.get(f"{name}_total", 0), **ended)


def items_of(job: Job) -> list[ItemShape]:
    """List the items of all sets, those that somebody has to look at first."""
    covering = Covering(job)
    return [
        _item(name, state, covering.value(entry))
        for state in ITEM_STATES
        for name, shape in job.items.items()
        for entry in shape.get(f"{name}_{state}", ())
    ]


def _item(name: str, state: str, entry: Any) -> ItemShape:
    if not isinstance(entry, dict):
        return ItemShape(set=name, key=str(entry), state=state, note=None)
    told = "error" if state == "failed" else "reason"
    key = next((str(value) for word, value in entry.items() if word != told), "")
    return ItemShape(set=name, key=key, state=state, note=entry.get(told))


def _facts(job: Job) -> dict[str, Any]:
    known = {name: getattr(job, name) for name in JobShape.model_fields if name in Job.__struct_fields__}
    covering = Covering(job)
    progress = covering.progress
    return known | {
        "unreadable": [covering.text(mistake) for mistake in job.unreadable],
        "id": job.public_id,
        "tags": job.tags,
        "parent": None if job.parent is None else public_id.encode(job.parent),
        "origin": None if job.origin is None else public_id.encode(job.origin),
        "progress": None
        if progress is None
        else ProgressShape(
            percent=progress.percent,
            message=progress.message,
            data=progress.data,
            phase=progress.phase,
            phase_percent=progress.phase_percent,
            updated_at=progress.updated_at,
        ),
    }
