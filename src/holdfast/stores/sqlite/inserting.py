"""Storing new jobs: the same code for the store's own writer and for a caller's connection.

Everything here runs inside one transaction that holds SQLite's only write lock, so what was looked at stays true.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Literal

import msgspec

from holdfast.errors import DataRefused
from holdfast.job import JobState, NewJob
from holdfast.public_id import SEQUENCE_BITS
from holdfast.stores.sqlite import admitting, gates, publishing, rows, statements
from holdfast.stores.sqlite.admitting import Debounced
from holdfast.stores.values import Inserted, Insertion

KEY_MS = 24 * 3_600_000
_KEYS = ""  # the scope of idempotency keys; a kind is the scope of its `unique_for` keys

Admission = Literal["each", "whole", "free"]
Parameters = dict[str, object]


def take_ids(connection: sqlite3.Connection, count: int) -> list[int]:
    """Draw ids that nobody else has."""
    if count < 1:
        return []
    first: int = statements.fetch_value(connection, "take_ids", count=count)
    return list(range(first, first + count))


def random_ids(connection: sqlite3.Connection, count: int) -> list[int]:
    """Make up ids in the half of the numbers that the counter never reaches.

    A caller's rollback takes the counter back: an id drawn from it could come to name another job than the handle that
    the caller may still have.
    """
    tag: int = statements.fetch_value(connection, "store_tag")
    return [tag << SEQUENCE_BITS | 1 << (SEQUENCE_BITS - 1) | secrets.randbits(SEQUENCE_BITS - 1) for _ in range(count)]


def draw_positions(connection: sqlite3.Connection, count: int) -> list[int]:
    """Draw positions at the end of every lane."""
    if count < 1:
        return []
    first: int = statements.fetch_value(connection, "draw_positions", count=count)
    return list(range(first, first + count))


def insert(
    connection: sqlite3.Connection,
    now: int,
    jobs: Sequence[NewJob],
    *,
    again: bool,
    admission: Admission = "each",
) -> list[Inserted]:
    """Store jobs, and answer for each in the order asked.

    `admission` says what rate limits let in: each job by itself, the whole call or nothing, or all of it ("free", which
    is not debounced either).
    """
    # guard: repeated-insert, without: present = frozenset[int]()
    present = _present(connection, jobs) if again else frozenset[int]()
    refused: dict[int, Inserted] = {}
    merged: dict[int, Debounced] = {}
    is_screened, is_gated = statements.fetch(connection, "has_looks")[0]
    if is_screened and admission != "free":
        refused = admitting.admit(connection, now, jobs, present, whole=admission == "whole")
        if refused and admission == "whole":
            return [refused.get(place) or Inserted(Insertion.CREATED, job.id) for place, job in enumerate(jobs)]
        merged = admitting.debounced(connection, jobs)
    stored = _parameters(connection, now, jobs)
    answers: list[Inserted] = []
    plain: list[Parameters] = []
    for place, (job, parameters) in enumerate(zip(jobs, stored, strict=True)):
        if place in refused:
            answers.append(refused[place])
        elif job.id in present:
            answers.append(Inserted(Insertion.CREATED, job.id))
        elif job.key is None and job.unique is None and place not in merged:
            answers.append(Inserted(Insertion.CREATED, job.id))
            plain.append(parameters)
        else:
            answers.append(_insert_keyed(connection, now, job, parameters, merged.get(place)))
    statements.change_many(connection, "insert_jobs", plain)
    if is_gated:
        gates.hold_back(connection, [job.id for job in jobs if job.id not in present])
    if publishing.is_watched(connection, now):
        stored_now = [
            job.id
            for job, answer in zip(jobs, answers, strict=True)
            if answer == Inserted(Insertion.CREATED, job.id) and job.id not in present
        ]
        publishing.waiting(connection, now, stored_now)
    return answers


def payload_hash(payload: str) -> int:
    """Fingerprint a payload so that equal JSON values are equal, whatever their spelling."""
    try:
        canonical = msgspec.json.encode(_canonical(msgspec.json.decode(payload)), order="sorted")
    except (msgspec.MsgspecError, RecursionError) as error:
        message = f"payload: expected JSON, got {payload[:80]!a}: {error}"
        raise DataRefused(message) from error
    return int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "big", signed=True)


def due(now: int, *, run_at_ms: int | None, delay_ms: int | None) -> tuple[int, JobState]:
    """Say when a job is due, and the state in which it waits for that."""
    at = run_at_ms if run_at_ms is not None else now + (delay_ms or 0)
    return at, JobState.SCHEDULED if at > now else JobState.QUEUED


def _present(connection: sqlite3.Connection, jobs: Sequence[NewJob]) -> frozenset[int]:
    ids = statements.array(job.id for job in jobs)
    return frozenset(row[0] for row in statements.fetch(connection, "present_jobs", ids=ids))


def _parameters(connection: sqlite3.Connection, now: int, jobs: Sequence[NewJob]) -> list[Parameters]:
    """Prepare rows; whoever is due now gets a position, in the order of the jobs."""
    dues = [
        due(now, run_at_ms=None if job.run_at is None else rows.milliseconds(job.run_at), delay_ms=job.delay_ms)
        for job in jobs
    ]
    positions = iter(draw_positions(connection, sum(state is JobState.QUEUED for _, state in dues)))
    return [
        {
            "id": job.id,
            "kind": job.kind,
            "queue": job.queue,
            "priority": job.priority,
            "state": state.value,
            "position": next(positions) if state is JobState.QUEUED else None,
            "payload": job.payload,
            "tags": statements.document(job.tags) if job.tags else None,
            "actor": job.actor,
            "run_at": run_at,
            "now": now,
            "max_attempts": job.max_attempts,
            "max_crashes": job.max_crashes,
            "timeout_ms": job.timeout_ms,
            "unique_key": job.unique,
            "idempotency_key": job.key,
            "extra": job.extra,
            "debounce_key": None,
            "parent": job.parent,
        }
        for job, (run_at, state) in zip(jobs, dues, strict=True)
    ]


def _insert_keyed(
    connection: sqlite3.Connection, now: int, job: NewJob, parameters: Parameters, debounced: Debounced | None
) -> Inserted:
    """Store a job unless a key says that it was asked for already, or one waits that it is merged with."""
    request = {"kind": job.kind, "payload_hash": payload_hash(job.payload) if job.key is not None else 0}
    if job.key is not None:
        held = statements.fetch(connection, "key_holder", scope=_KEYS, key=job.key, now=now, **request)
        if held:
            met, is_same = held[0]
            return _existing(job, met) if is_same else Inserted(Insertion.CONFLICT, met)

    holder: int | None = None
    if debounced is not None:
        waits = {"state": JobState.SCHEDULED.value, "position": None, "run_at": now + debounced.wait_ms}
        parameters |= waits | {"debounce_key": debounced.key}
        holder = statements.fetch_value(connection, "merge_debounced", **parameters)
        if holder is not None:
            gates.hold_back(connection, [holder])  # with its payload its keys may have changed
    if holder is None:
        holder = _unique_holder(connection, now, job)
    if holder is None:
        statements.change_many(connection, "insert_jobs", [parameters])
        if job.unique_for_ms is not None:
            _hold(
                connection, now, job.kind, job.unique, job.unique_for_ms, job_id=job.id, kind=job.kind, payload_hash=0
            )
    if job.key is not None:
        # A job that was not stored leaves its key with the one that was met.
        _hold(connection, now, _KEYS, job.key, KEY_MS, job_id=job.id if holder is None else holder, **request)
    return Inserted(Insertion.CREATED, job.id) if holder is None else _existing(job, holder)


def _unique_holder(connection: sqlite3.Connection, now: int, job: NewJob) -> int | None:
    if job.unique is None:
        return None
    if job.unique_for_ms is not None:
        held = statements.fetch(
            connection, "key_holder", scope=job.kind, key=job.unique, now=now, kind=job.kind, payload_hash=0
        )
        if held:
            return int(held[0][0])
    holder: int | None = statements.fetch_value(connection, "unique_holder", kind=job.kind, unique_key=job.unique)
    return holder


def _hold(
    connection: sqlite3.Connection, now: int, scope: str, key: str | None, lasts_ms: int, **request: object
) -> None:
    statements.change(connection, "hold_key", scope=scope, key=key, now=now, expires_at=now + lasts_ms, **request)


def _existing(job: NewJob, holder: int) -> Inserted:
    # A key that stands for this very id is an earlier send that arrived: its job is there, or was.
    return Inserted(Insertion.CREATED if holder == job.id else Insertion.EXISTING, holder)


def _canonical(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return value
