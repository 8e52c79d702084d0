"""What callers ask of jobs, on SQLite."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from holdfast.events import EventType
from holdfast.job import WAITING, Answer, JobRow, JobState, NewJob
from holdfast.stores.searching import is_costly
from holdfast.stores.sqlite import endings, inserting, lists, publishing, reports, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.publishing import Told
from holdfast.stores.values import Answered, Count, Cursor, Inserted, JobFilter, Page

COUNT_CAP = 10_001


class SqliteJobs:
    """The verbs of `JobStore`."""

    connection: Connection

    async def take_ids(self, count: int) -> list[int]:
        return await self.connection.write(lambda connection, _: inserting.take_ids(connection, count))

    async def insert_jobs(self, jobs: Sequence[NewJob], *, again: bool = False, whole: bool = False) -> list[Inserted]:
        if not jobs:
            return []
        admission: inserting.Admission = "whole" if whole else "each"
        return await self.connection.write(
            lambda connection, now: inserting.insert(connection, now, jobs, again=again, admission=admission)
        )

    async def get_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return await self._read_jobs("get_jobs", ids)

    async def finished_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return await self._read_jobs("finished_jobs", ids)

    async def list_jobs(self, which: JobFilter, *, limit: int, after: Cursor | None = None) -> Page:
        read = self.connection.search if is_costly(which) else self.connection.read
        found = await read(lambda connection, now: lists.read(connection, now, which, limit + 1, after))
        jobs = [rows.job(row) for row in found[:limit]]
        has_more = bool(jobs) and len(found) > limit
        return Page(jobs, Cursor(jobs[-1].enqueued_at, jobs[-1].id) if has_more else None)

    async def count_jobs(self) -> list[Count]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "count_jobs", cap=COUNT_CAP)
        )
        return [Count(queue, rows.state(state), jobs, bool(is_capped)) for queue, state, jobs, is_capped in found]

    async def cancel_jobs(self, ids: Sequence[int], *, actor: str | None, reason: str | None) -> list[Answered]:
        words = {"cancelled_by": actor, "cancel_reason": reason}
        given = {name: text for name, text in words.items() if text is not None}
        return await self.connection.write(lambda connection, now: cancel(connection, now, ids, given))

    async def retry_jobs(self, ids: Sequence[int], *, from_phase: str | None = None) -> list[Answered]:
        def operation(connection: sqlite3.Connection, now: int) -> list[Answered]:
            answers = {job_id: retry(connection, now, job_id, from_phase) for job_id in dict.fromkeys(ids)}
            return [answers[job_id] for job_id in ids]

        return await self.connection.write(operation)

    async def delete_jobs(self, ids: Sequence[int]) -> list[Answered]:
        return await self.connection.write(lambda connection, now: delete(connection, now, ids))

    async def reschedule_jobs(
        self, ids: Sequence[int], *, run_at: datetime | None, delay_ms: int | None
    ) -> list[Answered]:
        return await self.connection.write(
            lambda connection, now: reschedule(connection, now, ids, run_at=run_at, delay_ms=delay_ms)
        )

    async def reprioritise_jobs(self, ids: Sequence[int], priority: int) -> list[Answered]:
        return await self.connection.write(lambda connection, now: reprioritise(connection, now, ids, priority))

    async def _read_jobs(self, query: str, ids: Sequence[int]) -> list[JobRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, query, ids=statements.array(ids), now=now)
        )
        by_id = {row[0]: row for row in found}
        return [rows.job(by_id[job_id]) for job_id in dict.fromkeys(ids) if job_id in by_id]


def delete(connection: sqlite3.Connection, now: int, ids: Sequence[int]) -> list[Answered]:
    """Delete finished jobs."""
    gone = statements.fetch(connection, "delete_jobs", ids=statements.array(ids), now=now)
    told = [Told(*row) for row in gone]
    statements.change(connection, "forget_retention", ids=statements.array(job.id for job in told))
    if told and publishing.is_watched(connection, now):
        for job in told:
            publishing.publish(connection, now, EventType.DELETED, job)
    done = {job.id: _done(job.id, job.state) for job in told}
    return _answers(ids, _states(connection, now, ids), done)


def reprioritise(connection: sqlite3.Connection, now: int, ids: Sequence[int], priority: int) -> list[Answered]:
    """Move waiting jobs to another lane."""
    return _change_waiting(
        connection,
        now,
        "reprioritise_jobs",
        ids,
        lambda _now, state: {"priority": priority, "state": state.value},
    )


def reschedule(
    connection: sqlite3.Connection, now: int, ids: Sequence[int], *, run_at: datetime | None, delay_ms: int | None
) -> list[Answered]:
    """Set when waiting jobs are due."""
    run_at_ms = None if run_at is None else rows.milliseconds(run_at)

    def change(now: int, state: JobState) -> dict[str, object]:
        at, due_state = inserting.due(now, run_at_ms=run_at_ms, delay_ms=delay_ms)
        stays = state is JobState.BLOCKED or (state is JobState.HELD and due_state is JobState.QUEUED)
        return {"run_at": at, "state": (state if stays else due_state).value}

    return _change_waiting(connection, now, "reschedule_jobs", ids, change)


def _change_waiting(
    connection: sqlite3.Connection,
    now: int,
    query: str,
    ids: Sequence[int],
    change: Callable[[int, JobState], dict[str, object]],
) -> list[Answered]:
    """Change waiting jobs one way; whatever has a place in its lane afterwards goes to its end."""
    states = _states(connection, now, ids)
    waiting = [job_id for job_id in states if states[job_id] in WAITING]
    changes = [change(now, states[job_id]) | {"id": job_id, "position": None} for job_id in waiting]
    queued = [parameters for parameters in changes if parameters["state"] in (JobState.QUEUED, JobState.HELD)]
    for parameters, position in zip(queued, inserting.draw_positions(connection, len(queued)), strict=True):
        parameters["position"] = position
    statements.change_many(connection, query, changes)
    done = {job_id: _done(job_id, str(made["state"])) for job_id, made in zip(waiting, changes, strict=True)}
    return _answers(ids, states, done)


def _states(connection: sqlite3.Connection, now: int, ids: Sequence[int]) -> dict[int, JobState]:
    """Look at jobs, in the order asked."""
    looked_at = statements.fetch(connection, "job_states", ids=statements.array(ids), now=now)
    found = {job_id: rows.state(state) for job_id, state in looked_at}
    return {job_id: found[job_id] for job_id in dict.fromkeys(ids) if job_id in found}


def _answers(ids: Sequence[int], states: Mapping[int, JobState], answered: Mapping[int, Answered]) -> list[Answered]:
    """Answer in the order asked: what was done, and for the rest why not."""
    return [answered.get(job_id) or _refused(job_id, states.get(job_id)) for job_id in ids]


def _done(job_id: int, state: str) -> Answered:
    return Answered(job_id, Answer.DONE, rows.state(state))


def _refused(job_id: int, state: JobState | None) -> Answered:
    return Answered(job_id, Answer.NOT_FOUND if state is None else Answer.WRONG_STATE, state)


def cancel(connection: sqlite3.Connection, now: int, ids: Sequence[int], given: Mapping[str, str]) -> list[Answered]:
    """Cancel waiting jobs and mark running ones, with what is to be noted of it."""
    notes = statements.document(given) if given else None
    states = _states(connection, now, ids)
    answered: dict[int, Answered] = {}
    for job_id, state in states.items():
        if state is JobState.CANCELLED:
            answered[job_id] = Answered(job_id, Answer.DONE, JobState.CANCELLED)
        elif state is JobState.RUNNING:
            answered[job_id] = Answered(job_id, Answer.REQUESTED, state)
    waiting = [job_id for job_id, state in states.items() if state in WAITING]
    for job_id in endings.cancel(connection, now, [endings.Ending(job_id, notes) for job_id in waiting]):
        answered[job_id] = Answered(job_id, Answer.DONE, JobState.CANCELLED)
    running = [job_id for job_id, state in states.items() if state is JobState.RUNNING]
    if running:
        statements.change(connection, "cancel_jobs", ids=statements.array(running), now=now, notes=notes)
    return _answers(ids, states, answered)


def retry(connection: sqlite3.Connection, now: int, job_id: int, from_phase: str | None) -> Answered:
    """Give one finished job a new life."""
    found = statements.fetch(connection, "finished_job", id=job_id, now=now)
    if not found:
        return _refused(job_id, _states(connection, now, [job_id]).get(job_id))
    state, is_expiring, unique_holder = rows.state(found[0][0]), found[0][1], found[0][2]
    if state is JobState.COMPLETED:
        return _refused(job_id, state)
    if is_expiring:
        return Answered(job_id, Answer.EXPIRING, state)
    if unique_holder is not None:
        return Answered(job_id, Answer.UNIQUE_CLASH, state, unique_holder)
    (position,) = inserting.draw_positions(connection, 1)
    reports.reopen(connection, job_id, from_phase)
    statements.change(connection, "retry_jobs", id=job_id, now=now, position=position)
    publishing.waiting(connection, now, [job_id])
    return Answered(job_id, Answer.DONE, JobState.QUEUED)
