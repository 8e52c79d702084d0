"""Writing events, on SQLite: inside the transaction that changes the job, and only while somebody watches."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.events import EventType
from holdfast.job import TERMINAL, JobState
from holdfast.journal import Changes
from holdfast.stores.sqlite import rows, statements
from holdfast.transitions import Verb

_WAITS_AGAIN = {Verb.RETRY: EventType.RETRYING, Verb.CRASH: EventType.RESCUED}
_ENDS = {
    JobState.COMPLETED: EventType.COMPLETED,
    JobState.COMPLETED_WITH_ERRORS: EventType.COMPLETED,
    JobState.FAILED: EventType.FAILED,
    JobState.CANCELLED: EventType.CANCELLED,
}


class Told(NamedTuple):
    """What an event says of a job: the columns of the query that looks at it."""

    id: int
    kind: str
    queue: str
    state: str
    life: int
    claim: int
    attempt: int
    started_at: int | None = None
    error_class: str | None = None
    error: str | None = None
    run_at: int | None = None


def is_watched(connection: sqlite3.Connection, now: int) -> bool:
    """Whether anybody watches."""
    return bool(statements.fetch_value(connection, "is_watched", now=now))


def look(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, Told]:
    """Look at jobs, live or finished."""
    found = statements.fetch(connection, "told_jobs", ids=statements.array(ids))
    return {row[0]: Told(*row) for row in found}


def publish(
    connection: sqlite3.Connection,
    at: int,
    kind: EventType,
    job: Told,
    data: dict[str, object] | None = None,
    *,
    state: str | None = None,
) -> None:
    """Write one event."""
    given = {name: value for name, value in (data or {}).items() if value is not None}
    statements.change(
        connection,
        "publish",
        at=at,
        kind=kind.value,
        job_id=job.id,
        task=job.kind,
        queue=job.queue,
        state=job.state if state is None else state,
        life=job.life,
        claim=job.claim,
        attempt=job.attempt,
        data=msgspec.json.encode(given).decode() if given else None,
    )


def waiting(connection: sqlite3.Connection, now: int, ids: Sequence[int]) -> None:
    """Tell that jobs wait: stored just now, or given a new life."""
    if not is_watched(connection, now):
        return
    told = look(connection, ids)
    for job_id in ids:
        if job_id in told:
            job = told[job_id]
            at = rows.moment(job.run_at or now) if job.state == JobState.SCHEDULED else None
            publish(connection, now, EventType.ENQUEUED, job, {"run_at": at})


def ends(
    connection: sqlite3.Connection,
    now: int,
    ended: Sequence[tuple[int, Verb | None, JobState]],
    begun: Mapping[int, Told],
) -> None:
    """Tell how claims ended (without a verb: from outside); a start that nobody recorded before is told first."""
    told = look(connection, (job_id for job_id, _, _ in ended))
    for job_id, verb, state in ended:
        job = told[job_id]
        if (start := begun.get(job_id)) is not None:
            publish(connection, start.started_at or now, EventType.STARTED, start._replace(claim=job.claim))
        kind = _ENDS[state] if state in TERMINAL else _WAITS_AGAIN.get(verb or Verb.CANCEL, EventType.INTERRUPTED)
        due = rows.moment(job.run_at or now) if state is JobState.SCHEDULED else None
        publish(connection, now, kind, job, {"error_class": job.error_class, "error": job.error, "run_at": due})


def report(connection: sqlite3.Connection, now: int, job: Told, said: dict[str, object], changes: Changes) -> None:
    """Tell how far a job is, and which of its phases have ended."""
    if not changes.is_only_logs:
        items = {"items": changes.items} if changes.items else {}
        publish(connection, now, EventType.PROGRESS, job, said | items)
    for phase in changes.phases:
        if phase.state == JobState.COMPLETED:
            ended = {"phase": phase.name, "percent": said.get("percent")}
            publish(connection, now, EventType.PHASE_COMPLETED, job, ended)
