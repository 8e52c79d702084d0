"""The state machine: one table of legal moves, and the moves of a running job as values.

The table is what code, tests and the diagram in the docs all read. An executor makes a `Transition`, only a store
applies it, and only to the row that still carries the named claim.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.events import EventType
from holdfast.failure import Failure
from holdfast.job import RETRYABLE, TERMINAL, WAITING, JobState


class Move(NamedTuple):
    """One legal change of state; `None` stands for a job that does not exist (yet, or any more)."""

    verb: str
    sources: frozenset[JobState | None]
    targets: frozenset[JobState | None]
    event: EventType | None


class Verb(StrEnum):
    """How a claim ends."""

    COMPLETE = "complete"
    FAIL = "fail"
    RETRY = "retry"
    SNOOZE = "snooze"
    THROTTLE = "throttle"  # as snooze, and nothing of the queue is claimed meanwhile
    CANCEL = "cancel"
    INTERRUPT = "interrupt"
    CRASH = "crash"


_RUNNING = frozenset({JobState.RUNNING})
_QUEUED = frozenset({JobState.QUEUED})
_SCHEDULED = frozenset({JobState.SCHEDULED})
_FAILED = frozenset({JobState.FAILED})
_CANCELLED = frozenset({JobState.CANCELLED})

MOVES = (
    Move("enqueue", frozenset({None}), WAITING, EventType.ENQUEUED),
    Move("promote", _SCHEDULED | {JobState.HELD}, _QUEUED, None),
    Move("park", _QUEUED, frozenset({JobState.HELD}), None),
    Move("release", frozenset({JobState.HELD}), _QUEUED, None),
    Move("reschedule", _QUEUED | {JobState.HELD}, _SCHEDULED, None),
    Move("reschedule", _SCHEDULED, _QUEUED, None),
    Move("claim", _QUEUED, _RUNNING, EventType.STARTED),
    Move(
        Verb.COMPLETE,
        _RUNNING,
        frozenset({JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS}),
        EventType.COMPLETED,
    ),
    Move(Verb.FAIL, _RUNNING, _FAILED, EventType.FAILED),
    Move(Verb.RETRY, _RUNNING, _SCHEDULED | _QUEUED | _CANCELLED, EventType.RETRYING),
    Move(Verb.SNOOZE, _RUNNING, _SCHEDULED | _QUEUED | _CANCELLED, EventType.INTERRUPTED),
    Move(Verb.THROTTLE, _RUNNING, _SCHEDULED | _QUEUED | _CANCELLED, EventType.INTERRUPTED),
    Move("defer", _RUNNING, frozenset({JobState.HELD}) | _CANCELLED, EventType.INTERRUPTED),
    Move(Verb.INTERRUPT, _RUNNING, _QUEUED | _CANCELLED, EventType.INTERRUPTED),
    Move(Verb.CRASH, _RUNNING, _QUEUED | _SCHEDULED | _FAILED | _CANCELLED, EventType.RESCUED),
    Move(Verb.CANCEL, WAITING | _RUNNING, _CANCELLED, EventType.CANCELLED),
    Move("retry by hand", RETRYABLE, _QUEUED, EventType.ENQUEUED),
    Move("delete", TERMINAL, frozenset({None}), EventType.DELETED),
)


def is_legal(source: JobState | None, target: JobState | None) -> bool:
    """Whether some verb leads from one state to the other."""
    return any(source in move.sources and target in move.targets for move in MOVES)


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of one claim, to be applied under the fence `(id, claim)`."""

    id: int
    claim: int
    verb: Verb
    state: JobState
    delay_ms: int = 0
    result: str | None = None
    failure: Failure | None = None
    started_ago_ms: int | None = None


def completed(
    job_id: int, claim: int, result: str | None = None, *, with_errors: bool = False, started_ago_ms: int | None = None
) -> Transition:
    """The handler returned; `result` is JSON."""
    state = JobState.COMPLETED_WITH_ERRORS if with_errors else JobState.COMPLETED
    return Transition(
        id=job_id, claim=claim, verb=Verb.COMPLETE, state=state, result=result, started_ago_ms=started_ago_ms
    )


def failed(job_id: int, claim: int, failure: Failure, *, started_ago_ms: int | None = None) -> Transition:
    """The job is a dead letter: out of attempts, or not worth another."""
    return Transition(
        id=job_id,
        claim=claim,
        verb=Verb.FAIL,
        state=JobState.FAILED,
        failure=failure,
        started_ago_ms=started_ago_ms,
    )


def retried(
    job_id: int, claim: int, failure: Failure, delay_ms: int, *, started_ago_ms: int | None = None
) -> Transition:
    """The attempt failed and another follows after the delay."""
    return Transition(
        id=job_id,
        claim=claim,
        verb=Verb.RETRY,
        state=_waiting(delay_ms),
        delay_ms=delay_ms,
        failure=failure,
        started_ago_ms=started_ago_ms,
    )


def snoozed(
    job_id: int, claim: int, delay_ms: int, *, failure: Failure | None = None, started_ago_ms: int | None = None
) -> Transition:
    """The handler asks to be called again later; the attempt is given back."""
    return Transition(
        id=job_id,
        claim=claim,
        verb=Verb.SNOOZE,
        state=_waiting(delay_ms),
        delay_ms=delay_ms,
        failure=failure,
        started_ago_ms=started_ago_ms,
    )


def throttled(
    job_id: int, claim: int, delay_ms: int, *, failure: Failure | None = None, started_ago_ms: int | None = None
) -> Transition:
    """The handler was told to slow down: its queue rests for the delay, and the attempt is given back."""
    return Transition(
        id=job_id,
        claim=claim,
        verb=Verb.THROTTLE,
        state=_waiting(delay_ms),
        delay_ms=delay_ms,
        failure=failure,
        started_ago_ms=started_ago_ms,
    )


def interrupted(job_id: int, claim: int) -> Transition:
    """The worker gives the job back uncharged; it keeps its place."""
    return Transition(id=job_id, claim=claim, verb=Verb.INTERRUPT, state=JobState.QUEUED)


def crashed(job_id: int, claim: int, failure: Failure) -> Transition:
    """The process died under the job: a crash is counted, not an attempt."""
    return Transition(id=job_id, claim=claim, verb=Verb.CRASH, state=JobState.QUEUED, failure=failure)


def cancelled(
    job_id: int, claim: int, *, failure: Failure | None = None, started_ago_ms: int | None = None
) -> Transition:
    """The handler stopped because the job was cancelled, or cancelled it itself."""
    return Transition(
        id=job_id,
        claim=claim,
        verb=Verb.CANCEL,
        state=JobState.CANCELLED,
        failure=failure,
        started_ago_ms=started_ago_ms,
    )


def _waiting(delay_ms: int) -> JobState:
    return JobState.SCHEDULED if delay_ms > 0 else JobState.QUEUED
