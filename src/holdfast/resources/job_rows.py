"""From a row of the store to the job that people and programs see; its secrets are covered where they are quoted."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from holdfast import payload, public_id
from holdfast.events import TERMINAL_EVENTS, EventRow, EventType
from holdfast.job import TERMINAL, AttemptRow, DeliveryRow, JobRow, JobState
from holdfast.phases import PhaseRow
from holdfast.resources.event import Event
from holdfast.resources.job import Attempt, ItemSet, Job, JobPhase, Progress
from holdfast.resources.job_parts import ITEM_STATES, JobItem, LogLine, StateChange
from holdfast.resources.redaction import ArgumentSecrets
from holdfast.resources.webhook import Delivery, DeliveryTry

_MOST_CHANGES = 100
_TRACE_PARTS = 4  # version, trace, span, flags
_ROW = frozenset(JobRow.__struct_fields__)
_OTHERWISE = {"id", "parent", "origin", "worker", "error", "error_fingerprint"}
_SAME = tuple(field.name for field in fields(Job) if field.name in _ROW - _OTHERWISE)


def job(row: JobRow) -> Job:
    """Show all that is kept of a job."""
    secrets, extra = secrets_of(row), row.extra
    known = {name: getattr(row, name) for name in _SAME}
    return Job(
        **known,
        error=secrets.text(row.error),  # guard: exported-error, without: error=row.error,
        # guard: exported-fingerprint, without: error_fingerprint=row.error_fingerprint,
        error_fingerprint=secrets.text(row.error_fingerprint),
        id=row.public_id,
        run=row.life,
        tags=row.tags,
        worker=_worker(row.worker),
        progress=_progress(row, secrets),
        parent=None if row.parent is None else public_id.encode(row.parent),
        origin=None if row.origin is None else public_id.encode(row.origin),
        unreadable=[secrets.text(mistake) or "" for mistake in row.unreadable],
        args=row.payload,
        result=row.result,
        key=row.idempotency_key,
        trace=_trace(extra.get("traceparent")),
        cancelled_by=secrets.text(extra.get("cancelled_by")),
        cancel_reason=secrets.text(extra.get("cancel_reason")),
        # guard: exported-traceback, without: traceback=extra.get("traceback"),
        traceback=secrets.text(extra.get("traceback")),
        phases=[_phase(phase, secrets) for phase in row.phases],
        items={name: _item_set(name, shape) for name, shape in row.items.items()},
        attempts=attempts(row, secrets),
        webhooks=[_webhook(delivery, secrets) for delivery in row.deliveries],
        webhook_sent=row.webhook_sent,
    )


def secrets_of(row: JobRow) -> ArgumentSecrets:
    """Find the secrets among the arguments of a job."""
    return ArgumentSecrets(row.payload if f'"{payload.SECRET}"' in row.payload_json else None)


def attempts(row: JobRow, secrets: ArgumentSecrets) -> list[Attempt]:
    """Show the finished claims of a job."""
    return [
        Attempt(
            claim=ended.claim,
            attempt=ended.attempt,
            worker=_worker(ended.worker),
            claimed_at=ended.claimed_at,
            started_at=ended.started_at,
            finished_at=ended.ended_at,
            outcome=ended.outcome,
            error_class=ended.error_class,
            error=secrets.text(ended.error),
            traceback=secrets.text(ended.traceback),
        )
        for ended in row.attempts
    ]


def log_lines(row: JobRow) -> list[LogLine]:
    """Show what the handler of a job logged, oldest first."""
    secrets = secrets_of(row)
    return [
        LogLine(claim=line.claim, line=line.line, at=line.at, level=line.level, text=secrets.text(line.text) or "")
        for line in row.logs
    ]


def job_items(row: JobRow) -> list[JobItem]:
    """Show the items of all sets, failed ones first."""
    secrets = secrets_of(row)
    return [
        _item(name, state, secrets.cover(entry))
        for state in ITEM_STATES
        for name, shape in row.items.items()
        for entry in shape.get(f"{name}_{state}", ())
    ]


def state_changes(row: JobRow) -> list[StateChange]:
    """Show the changes of a job's state, oldest first, as far as its finished claims say."""
    secrets = secrets_of(row)
    changes = [StateChange(at=row.enqueued_at, target=JobState.QUEUED, attempt=0)]
    for ended in row.attempts:
        changes += _changes_of(ended, secrets)
    now = StateChange(at=row.enqueued_at, target=row.state, attempt=row.attempt, worker=_worker(row.worker))
    if row.claimed_at is not None:
        changes.append(replace(now, at=row.claimed_at, source=JobState.QUEUED, target=JobState.RUNNING))
    if row.finished_at is not None:
        source = JobState.QUEUED if row.claimed_at is None else JobState.RUNNING
        reason = secrets.text(row.extra.get("cancel_reason") or row.error)
        changes.append(replace(now, at=row.finished_at, source=source, reason=reason))
    return changes[-_MOST_CHANGES:]


def event(row: EventRow) -> Event:
    """Show what happened."""
    return Event(
        type=row.type,
        id=row.public_id or None,
        at=row.at,
        kind=row.kind,
        queue=row.queue,
        state=row.state,
        run=row.run,
        claim=row.claim,
        attempt=row.attempt,
        data=row.data,
    )


def end_of(ended: Job) -> Event:
    """Show the end of a job that has finished."""
    types = {JobState.FAILED: EventType.FAILED, JobState.CANCELLED: EventType.CANCELLED}
    error = {"error_class": ended.error_class, "error": ended.error}
    return Event(
        type=types.get(ended.state, EventType.COMPLETED),
        id=ended.id,
        at=ended.finished_at or ended.enqueued_at,
        kind=ended.kind,
        queue=ended.queue,
        state=ended.state,
        run=ended.run,
        claim=ended.claim,
        attempt=ended.attempt,
        data={name: value for name, value in error.items() if value is not None},
    )


def is_end(happened: Event, run: int) -> bool:
    """Whether an event is the end of a run of its job, or of a later one."""
    return happened.type in TERMINAL_EVENTS and happened.run >= run


def _progress(row: JobRow, secrets: ArgumentSecrets) -> Progress | None:
    report = row.progress
    if report is None:
        return None
    return Progress(
        percent=report.percent,
        message=secrets.text(report.message),
        data=secrets.cover(report.data),
        phase=report.phase,
        phase_percent=report.phase_percent,
        updated_at=report.updated_at,
    )


def _phase(phase: PhaseRow, secrets: ArgumentSecrets) -> JobPhase:
    return JobPhase(
        name=phase.name,
        weight=phase.weight,
        state=phase.state,
        claim=phase.claim,
        percent=phase.percent,
        message=secrets.text(phase.message),
        data=secrets.cover(phase.data),
        error=secrets.text(phase.error),
        result=secrets.cover(phase.result),
        started_at=phase.started_at,
        finished_at=phase.ended_at,
    )


def _item_set(name: str, shape: dict[str, Any]) -> ItemSet:
    counts = {state: len(shape.get(f"{name}_{state}", ())) for state in ITEM_STATES}
    return ItemSet(total=shape.get(f"{name}_total", 0), **counts)


def _item(name: str, state: str, entry: Any) -> JobItem:
    if not isinstance(entry, dict):
        return JobItem(set=name, key=str(entry), state=state)
    note = "error" if state == "failed" else "reason"
    key = next((str(value) for word, value in entry.items() if word != note), "")
    return JobItem(set=name, key=key, state=state, note=entry.get(note))


def _webhook(row: DeliveryRow, secrets: ArgumentSecrets) -> Delivery:
    return Delivery(
        run=row.life,
        event=row.event,
        url=row.url.partition("?")[0],
        state=row.state,
        tries=row.tries,
        at=row.at,
        next_at=row.next_at,
        finished_at=row.ended_at,
        log=[
            DeliveryTry(at=tried.at, status=tried.status, error=secrets.text(tried.error), took_ms=tried.took_ms)
            for tried in row.log
        ],
    )


def _changes_of(ended: AttemptRow, secrets: ArgumentSecrets) -> Iterator[StateChange]:
    """Read two changes from a finished claim: it was taken, and it finished."""
    target = JobState(ended.outcome) if ended.outcome in TERMINAL else JobState.QUEUED
    reason = f"{ended.outcome}: {secrets.text(ended.error)}" if ended.error else ended.outcome
    end = StateChange(
        at=ended.ended_at,
        source=JobState.RUNNING,
        target=target,
        attempt=ended.attempt,
        worker=_worker(ended.worker),
        reason=reason,
    )
    if ended.claimed_at is not None:
        yield replace(end, at=ended.claimed_at, source=JobState.QUEUED, target=JobState.RUNNING, reason=None)
    yield end


def _worker(number: int | None) -> str | None:
    return None if number is None else str(number)


def _trace(traceparent: object) -> str | None:
    parts = str(traceparent or "").split("-")
    return parts[1] if len(parts) == _TRACE_PARTS else None
