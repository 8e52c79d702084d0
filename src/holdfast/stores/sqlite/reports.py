"""What is kept beside a live job, on SQLite: its last report, its phases, its items and what it logged."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast import journal
from holdfast.events import EventType
from holdfast.job import JobState, LogRow, ProgressRow
from holdfast.journal import Changes
from holdfast.phases import PhaseRow
from holdfast.stores.sqlite import publishing, rows, statements
from holdfast.stores.values import ProgressReport

_ENDED_SO = {"completed": None, "skipped": "reason", "failed": "error", "in_progress": None}


def save(connection: sqlite3.Connection, now: int, reports: Sequence[ProgressReport]) -> None:
    """Keep reports of claims that are held."""
    for report in reports:
        changes = journal.read_changes(report.changes)
        query = "keep_progress" if changes.bare else "save_progress"
        statements.change_many(connection, query, [msgspec.structs.asdict(report) | {"now": now}])
        _save_changes(connection, now, report, changes)
    if reports and publishing.is_watched(connection, now):
        _publish(connection, now, reports)


def fold(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Fold what is kept beside jobs that are in history by now into their rows, and remove it."""
    reported = statements.fetch(connection, "reported_jobs", ids=statements.array(ids))
    if reported:
        statements.change(connection, "fold_reports", ids=statements.array(row[0] for row in reported))


def reopen(connection: sqlite3.Connection, job_id: int, from_phase: str | None) -> None:
    """Lay what was folded into a history row out as rows again, without the phases that are to be run anew."""
    found = statements.fetch(connection, "folded_reports", id=job_id)
    if not found or found[0][1] is None:
        return
    state, progress_json, phases_json, items_json, logs_json = found[0]
    if phases_json is None and items_json is None and logs_json is None:
        return  # without anything to go on with, a new life begins without progress
    _restore_progress(connection, job_id, msgspec.json.decode(progress_json, type=ProgressRow))
    phases = msgspec.json.decode(phases_json or "[]", type=list[PhaseRow])
    items: dict[str, dict[str, Any]] = msgspec.json.decode(items_json or "{}")
    is_partial = state == JobState.COMPLETED_WITH_ERRORS
    failed = {shape["phase"] for name, shape in items.items() if is_partial and shape[f"{name}_failed"]}
    first = _first(phases, failed if from_phase is None else {from_phase})
    kept = [phase for phase in phases if _is_kept(phase, first, failed if from_phase is None else None)]
    _restore_phases(connection, job_id, kept)
    # Items of a phase that is asked for again begin anew; of one that had failures, only those are worked through.
    last_kept = -1 if first is None else first if from_phase is None else first - 1
    ordinals = {phase.name: phase.ordinal for phase in phases}
    for name, shape in items.items():
        if first is None or shape["phase"] is None or ordinals.get(shape["phase"], first + 1) <= last_kept:
            _restore_items(connection, job_id, name, shape)
    lines = msgspec.json.decode(logs_json or "[]", type=list[LogRow])
    statements.change_many(
        connection,
        "restore_line",
        [msgspec.structs.asdict(line) | {"id": job_id, "at": rows.milliseconds(line.at)} for line in lines],
    )


def _save_changes(connection: sqlite3.Connection, now: int, report: ProgressReport, changes: Changes) -> None:
    common = {"id": report.id, "claim": report.claim, "now": now}
    if changes.reset:
        statements.change(connection, "forget_reports", id=report.id)
    for opened in changes.sets:
        fields = msgspec.structs.asdict(opened) | {"keys": statements.array(opened.keys), "id": report.id}
        statements.change(connection, "save_item_set", **fields)
    moves = [
        {"id": report.id, "set_name": name, "key": key, "state": state, "note": note}
        for name, key, state, note in changes.items
    ]
    statements.change_many(connection, "save_item", moves)
    phases = [
        msgspec.structs.asdict(phase) | {"data": _text(phase.data), "result": _text(phase.result)} | common
        for phase in changes.phases
    ]
    statements.change_many(connection, "save_phase", phases)
    lines = [
        {"line": number, "ago": ago, "level": level, "text": text} | common for number, ago, level, text in changes.logs
    ]
    statements.change_many(connection, "save_line", lines)


def _publish(connection: sqlite3.Connection, now: int, reports: Sequence[ProgressReport]) -> None:
    told = publishing.look(connection, (report.id for report in reports))
    for report in reports:
        changes = journal.read_changes(report.changes)
        if changes.started is not None and told[report.id].started_at is None:  # what began is told before the rest
            start = {"id": report.id, "claim": report.claim, "now": now, "started_ago_ms": changes.started}
            statements.change_many(connection, "start_jobs", [start])
            publishing.publish(connection, now - changes.started, EventType.STARTED, told[report.id])
        ((percent, message, data, phase, phase_percent),) = statements.fetch(connection, "read_progress", id=report.id)
        said = {
            "percent": percent,
            "message": message,
            "data": journal.decoded(data),
            "phase": phase,
            "phase_percent": phase_percent,
        }
        publishing.report(connection, now, told[report.id], said, changes)


def _first(phases: Sequence[PhaseRow], names: set[str | None]) -> int | None:
    """Find the first phase that is run anew."""
    return min((phase.ordinal for phase in phases if phase.name in names), default=None)


def _is_kept(phase: PhaseRow, first: int | None, failed: set[str | None] | None) -> bool:
    """Whether a phase stays as it is; steps have the number of the phase that they belong to.

    Those of a phase that is only run through again, because items of it have failed, stay too.
    """
    if first is None or phase.ordinal < first:
        return True
    return failed is not None and phase.ordinal == first and phase.name not in failed


def _restore_progress(connection: sqlite3.Connection, job_id: int, progress: ProgressRow) -> None:
    fields = msgspec.structs.asdict(progress) | {
        "id": job_id,
        "updated_at": rows.milliseconds(progress.updated_at),
        "data": _json(progress.data),
    }
    statements.change(connection, "restore_progress", **fields)


def _restore_phases(connection: sqlite3.Connection, job_id: int, phases: Sequence[PhaseRow]) -> None:
    restored = [
        msgspec.structs.asdict(phase)
        | {
            "id": job_id,
            "state": phase.state.value,
            "data": _json(phase.data),
            "result": _json(phase.result),
            "started_at": _milliseconds(phase.started_at),
            "ended_at": _milliseconds(phase.ended_at),
        }
        for phase in phases
    ]
    statements.change_many(connection, "restore_phase", restored)


def _restore_items(connection: sqlite3.Connection, job_id: int, name: str, shape: dict[str, Any]) -> None:
    word = shape["word"]
    statements.change(connection, "restore_item_set", id=job_id, name=name, word=word, phase=shape["phase"])
    items = [
        {
            "id": job_id,
            "set_name": name,
            "key": listed if note is None else listed[word],
            "state": state,
            "note": None if note is None else listed[note],
        }
        for state, note in _ENDED_SO.items()
        for listed in shape[f"{name}_{state}"]
    ]
    statements.change_many(connection, "restore_item", [item | {"ordinal": i} for i, item in enumerate(items)])


def _text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else rows.milliseconds(at)
