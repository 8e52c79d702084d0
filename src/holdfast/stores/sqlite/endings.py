"""How claims end: each to history or back to waiting, decided on the row that the fence found.

The caller has looked at the rows inside the same transaction, and SQLite has one writer, so nothing can change between
the look and the write.
"""

import contextlib
import logging
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from holdfast.errors import DataRefused
from holdfast.failure import Failure, from_text
from holdfast.job import TERMINAL, WAITING, JobState
from holdfast.stores.sqlite import errors, gates, publishing, reports, settling, statements
from holdfast.stores.sqlite.inserting import Parameters, draw_positions
from holdfast.stores.sqlite.rooms import Freed
from holdfast.stores.values import Rescued
from holdfast.transitions import Transition, Verb

T = TypeVar("T")
R = TypeVar("R")

_logger = logging.getLogger("holdfast")

_BACKOFF_MS, _LONGEST_BACKOFF_MS = 10_000, 3_600_000
_MOST_DOUBLINGS = 20
_INTERRUPTED = from_text("Interrupted", "its worker left before it had ended")
_FINAL = frozenset({Verb.COMPLETE, Verb.FAIL, Verb.CANCEL})
FORCED = '{"ended_by":"force"}'
"""The notes of a job that was ended without its worker."""
_UNTOLD = frozenset({Verb.CRASH, Verb.INTERRUPT})  # nobody knows what the handler spent that it did not report


class Held(NamedTuple):
    """What decides about a running job: the columns of the queries that look for one."""

    id: int
    claim: int
    crashes: int
    max_crashes: int
    is_cancelling: int
    is_run_once: int | None = None  # what has begun and did not end is not begun again
    is_started: int = 0


class Ending(NamedTuple):
    """A job that somebody who does not hold its claim ends for good."""

    id: int
    notes: str | None
    failure: Failure | None = None  # of one that fails; without it the job is cancelled


class _Moved(NamedTuple):
    """An item of the query that moves jobs to history."""

    id: int
    state: str
    is_crash: bool = False
    is_outside: bool = False  # counts the claim up, so that the holder's late write is lost and not taken for its own
    is_success: bool = False
    started_ago_ms: int | None = None
    result: str | None = None
    error_class: str | None = None
    error: str | None = None
    error_fingerprint: str | None = None
    notes: str | None = None


def end_claims(
    connection: sqlite3.Connection,
    now: int,
    ends: Sequence[tuple[Held, Transition]],
    freed: Freed | None = None,
) -> list[JobState]:
    """End claims that were found under the fence; returns where each job went.

    `freed` takes what they leave.
    """
    states = [_target(held, transition) for held, transition in ends]
    moved: list[_Moved] = []
    waiting: list[Parameters] = []
    for (held, transition), state in zip(ends, states, strict=True):
        if state in TERMINAL:
            moved.append(_moved(transition, state))
        else:
            waiting.append(_waiting_parameters(held, transition, state, now))
    _give_positions(connection, waiting)
    is_watched = bool(ends) and publishing.is_watched(connection, now)
    begun = _newly_begun(connection, now, ends) if is_watched else {}
    _move(connection, now, moved)
    statements.change_many(connection, "wait_again", waiting)
    if throttled := [held.id for held, transition in ends if transition.verb is Verb.THROTTLE]:
        statements.change(connection, "close_queues", ids=statements.array(throttled))
    if ends and statements.fetch_value(connection, "has_any_gated"):
        claims = [(held.id, held.claim) for held, _ in ends]
        gates.free(connection, claims, freed or Freed(), _ended_rows(connection, moved))
    # guard: killed-reservation, without: told = {(held.id, held.claim): True for held, _ in ends}
    told = {(held.id, held.claim): transition.verb not in _UNTOLD for held, transition in ends}
    settling.end_reservations(connection, now, told)
    if is_watched:
        ended = [(held.id, transition.verb, state) for (held, transition), state in zip(ends, states, strict=True)]
        publishing.ends(connection, now, ended, begun)
    return states


def end_apart(
    connection: sqlite3.Connection, now: int, ends: Sequence[tuple[Held, Transition]]
) -> list[JobState | None]:
    """End claims from outside; one that the database refuses to end fails alone, with that reason.

    A job that it refuses even then stays as it is, with None for an answer.
    """

    def fail(end: tuple[Held, Transition], why: Failure) -> JobState:
        strip(connection, end[0].id)
        _end_outside(connection, now, [Ending(end[0].id, FORCED, why)])
        return JobState.FAILED

    return _apart(connection, lambda some: end_claims(connection, now, some), ends, fail)


def rescue(connection: sqlite3.Connection, now: int, workers: int, ends: Sequence[tuple[Held, Transition]]) -> Rescued:
    """End the claims of workers that were declared dead; tells where their jobs went."""
    states = end_apart(connection, now, ends)
    ended = [(held.id, state) for (held, _), state in zip(ends, states, strict=True)]
    return Rescued(
        workers,
        requeued=tuple(job_id for job_id, state in ended if state in WAITING),
        failed=tuple(job_id for job_id, state in ended if state is JobState.FAILED),
        cancelled=tuple(job_id for job_id, state in ended if state is JobState.CANCELLED),
    )


def cancel(connection: sqlite3.Connection, now: int, endings: Sequence[Ending]) -> list[int]:
    """Move jobs to `cancelled` from outside: waiting ones, or running ones whose grace has ended.

    Returns which have ended. A job that the database refuses to move is moved without its notes and its report.
    """

    def cancel_bare(ending: Ending, _: Failure) -> int:
        strip(connection, ending.id)
        return _end_outside(connection, now, [ending])[0]

    ended = _apart(connection, lambda some: _end_outside(connection, now, some), endings, cancel_bare)
    return [job_id for job_id in ended if job_id is not None]


def strip(connection: sqlite3.Connection, job_id: int) -> None:
    """Remove from a job what the database may refuse to move: its notes, and its report."""
    statements.change(connection, "strip_job", id=job_id)


def _apart(
    connection: sqlite3.Connection,
    end: Callable[[Sequence[T]], Sequence[R]],
    jobs: Sequence[T],
    end_refused: Callable[[T, Failure], R],
) -> list[R | None]:
    """End jobs at once, or one by one where the database refuses that; a refused one is left to `end_refused`."""
    try:
        with _savepoint(connection):
            return list(end(jobs))
    # guard: refused-rescue, without: except ZeroDivisionError as error:
    except (sqlite3.Error, DataRefused) as error:
        refusal = errors.translated(error, "")
        if not isinstance(refusal, DataRefused) or not connection.in_transaction:
            raise
    if len(jobs) > 1:
        return [state for job in jobs for state in _apart(connection, end, [job], end_refused)]
    try:
        with _savepoint(connection):
            return [end_refused(jobs[0], from_text("DataRefused", str(refusal)))]
    except (sqlite3.Error, DataRefused) as error:
        if not isinstance(errors.translated(error, ""), DataRefused) or not connection.in_transaction:
            raise
        _logger.warning("a job cannot be ended: %s", error)
        return [None]


@contextlib.contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT ending")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite gives up the whole transaction when the disk is full
            connection.execute("ROLLBACK TO ending")
            connection.execute("RELEASE ending")
        raise
    connection.execute("RELEASE ending")


def _end_outside(connection: sqlite3.Connection, now: int, endings: Iterable[Ending]) -> list[int]:
    """Move jobs to `cancelled` or `failed`, whoever holds them."""
    moved = [_moved_outside(ending) for ending in endings]
    _move(connection, now, moved)
    if moved and statements.fetch_value(connection, "has_any_gated"):
        # What is forced to end still runs: its slots stay with it until its worker tells of its end, or is gone.
        gates.free(connection, (), Freed(), _ended_rows(connection, moved))
    kept = settling.kept_for(connection, (job.id for job in moved)) if moved else []
    settling.end_reservations(connection, now, {(one.job_id, one.claim): False for one in kept})
    if moved and publishing.is_watched(connection, now):
        publishing.ends(connection, now, [(job.id, None, JobState(job.state)) for job in moved], {})
    return [job.id for job in moved]


def _moved_outside(ending: Ending) -> _Moved:
    why = ending.failure
    state = JobState.CANCELLED if why is None else JobState.FAILED
    moved = _Moved(ending.id, state.value, is_outside=True, notes=ending.notes)
    if why is None:
        return moved
    return moved._replace(error_class=why.error_class, error=why.message, error_fingerprint=why.fingerprint)


def _ended_rows(connection: sqlite3.Connection, moved: Sequence[_Moved]) -> list[str]:
    """Find the keys of jobs in a row of which one has ended for good."""
    ids = statements.array(job.id for job in moved)
    return [row[0] for row in statements.fetch(connection, "ended_rows", ids=ids)]


def _newly_begun(
    connection: sqlite3.Connection, now: int, ends: Sequence[tuple[Held, Transition]]
) -> dict[int, publishing.Told]:
    """Find the jobs whose end is the first to tell that they began, as they were when they did."""
    before = publishing.look(connection, (held.id for held, _ in ends))
    return {
        held.id: before[held.id]._replace(started_at=now - transition.started_ago_ms)
        for held, transition in ends
        if transition.started_ago_ms is not None and before[held.id].started_at is None
    }


def _move(connection: sqlite3.Connection, now: int, moved: list[_Moved]) -> None:
    if not moved:
        return
    # All in one go: a statement per job would cost more than what it does.
    ids = statements.array(job.id for job in moved)
    ((has_queues, has_jobs),) = statements.fetch(connection, "hooked_queues", ids=ids)
    if statements.change(connection, "finish_jobs", items=statements.array(moved), ids=ids, now=now) != len(moved):
        message = f"{len(moved)} jobs were to be moved to history and some were not there: this is a bug in Holdfast"
        raise RuntimeError(message)
    reports.fold(connection, (job.id for job in moved))
    if any(job.state == JobState.FAILED for job in moved):
        statements.change(connection, "note_failures", ids=ids)
    if has_queues or has_jobs:
        statements.change(connection, "post_ends", ids=ids)
    if has_queues:
        statements.change(connection, "note_retention", ids=ids)


def _target(held: Held, transition: Transition) -> JobState:
    if transition.verb in _FINAL:
        return transition.state
    if held.is_cancelling:  # guard: cancelled-claim
        return JobState.CANCELLED
    may_have_begun = transition.verb is Verb.CRASH or (transition.verb is Verb.INTERRUPT and held.is_started)
    if held.is_run_once and may_have_begun:
        return JobState.FAILED
    if transition.verb is not Verb.CRASH:
        return transition.state
    # guard: last-crash, without: if held.crashes >= held.max_crashes:
    if held.crashes + 1 >= held.max_crashes:
        return JobState.FAILED
    return JobState.SCHEDULED if held.crashes else JobState.QUEUED


def _moved(transition: Transition, state: JobState) -> _Moved:
    failure, is_crash = transition.failure, transition.verb is Verb.CRASH
    if state is JobState.FAILED and failure is None:
        failure = _INTERRUPTED
    return _Moved(
        transition.id,
        state.value,
        is_crash,
        is_crash,
        transition.verb is Verb.COMPLETE,
        transition.started_ago_ms,
        transition.result,
        failure.error_class if failure else None,
        failure.message if failure else None,
        failure.fingerprint if failure else None,
        _notes(transition) if failure or is_crash else None,
    )


def _notes(transition: Transition) -> str | None:
    # The claim that ends a job has no row of its own; everything else about it is in the job's columns.
    notes = {
        "traceback": transition.failure.traceback if transition.failure else None,
        "ended_by": transition.verb.value if transition.verb is Verb.CRASH else None,
    }
    given = {name: text for name, text in notes.items() if text is not None}
    return statements.document(given) if given else None


def _waiting_parameters(held: Held, transition: Transition, state: JobState, now: int) -> Parameters:
    failure = transition.failure
    return {
        "id": transition.id,
        "now": now,
        "state": state.value,
        "is_crash": transition.verb is Verb.CRASH,
        "started_ago_ms": transition.started_ago_ms,
        "error_class": failure.error_class if failure else None,
        "error": failure.message if failure else None,
        "error_fingerprint": failure.fingerprint if failure else None,
        "claim": held.claim,
        "verb": transition.verb.value,
        "is_uncharged": transition.verb is not Verb.RETRY,
        "run_at": _run_at(held, transition, state, now),
        "position": None,
        "traceback": failure.traceback if failure else None,
    }


def _run_at(held: Held, transition: Transition, state: JobState, now: int) -> int | None:
    """When the job is due again; None for one that keeps its place."""
    if transition.verb in (Verb.RETRY, Verb.SNOOZE, Verb.THROTTLE):
        return now + transition.delay_ms
    if state is JobState.QUEUED:
        return None
    backoff = _BACKOFF_MS * 2 ** min(held.crashes - 1, _MOST_DOUBLINGS) * random.uniform(0.75, 1.25)
    return now + int(min(backoff, _LONGEST_BACKOFF_MS))


def _give_positions(connection: sqlite3.Connection, waiting: list[Parameters]) -> None:
    """Put at the end of their lanes what waits anew; given back and rescued jobs keep their place."""
    anew = [
        parameters
        for parameters in waiting
        if parameters["state"] == JobState.QUEUED and parameters["verb"] in (Verb.RETRY, Verb.SNOOZE, Verb.THROTTLE)
    ]
    for parameters, position in zip(anew, draw_positions(connection, len(anew)), strict=True):
        parameters["position"] = position
