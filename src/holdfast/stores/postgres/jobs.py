"""What callers ask of jobs, on PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.errors import StoreMoved
from holdfast.job import TERMINAL, WAITING, Answer, JobRow, JobState, NewJob
from holdfast.stores.postgres import lists, rows
from holdfast.stores.postgres.role import Role
from holdfast.stores.searching import is_costly
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Answered, Count, Cursor, Inserted, Insertion, JobFilter, Page

COUNT_CAP = 10_001
EVERY_STATE = frozenset(JobState)
_LOOKS = 5


class PostgresJobs(Role):
    """The verbs of `JobStore`."""

    async def take_ids(self, count: int) -> list[int]:
        return [row[0] for row in await self.fetch("take_ids", count)]

    async def insert_jobs(self, jobs: Sequence[NewJob], *, again: bool = False, whole: bool = False) -> list[Inserted]:
        answers = [Inserted(Insertion.CREATED, job.id) for job in jobs]
        if (
            len(jobs) == 1
            and not again
            and _is_plain(jobs[0])
            and await self.fetch("insert_one_job", *_values(jobs[0]))
        ):
            return answers
        try:
            found = await self.fetch("insert_jobs", *insert_values(jobs, "whole" if whole else "each", again=again))
        except StoreMoved:
            # An earlier send may have arrived before the store was closed: then the jobs move with it.
            if not again or len(await self.get_jobs([job.id for job in jobs])) < len(jobs):
                raise
            return answers
        for ordinal, outcome, job_id, detail in found:
            answers[ordinal - 1] = Inserted(Insertion(outcome), job_id, rows.refusal(detail))
        return answers

    async def get_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return [rows.job(row[: rows.ALL_COLUMNS]) for row in await self.fetch("get_jobs", ids)]

    async def finished_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return [rows.job(row[: rows.ALL_COLUMNS]) for row in await self.fetch("finished_jobs", ids)]

    async def list_jobs(self, which: JobFilter, *, limit: int, after: Cursor | None = None) -> Page:
        sql, args = lists.query(which, limit + 1, after)
        run = self.pool.search if is_costly(which) else self.pool.call
        found = await run(lambda connection: connection.fetch(in_schema(sql, self.schema), *args))
        jobs = [rows.job(row[: rows.ALL_COLUMNS]) for row in found[:limit]]
        more = len(found) > limit
        return Page(jobs, Cursor(jobs[-1].enqueued_at, jobs[-1].id) if more else None)

    async def count_jobs(self) -> list[Count]:
        found = await self.fetch("count_jobs", COUNT_CAP)
        return [Count(queue, rows.state(state), jobs, capped) for queue, state, jobs, capped in found]

    async def cancel_jobs(self, ids: Sequence[int], *, actor: str | None, reason: str | None) -> list[Answered]:
        notes = {"cancelled_by": actor, "cancel_reason": reason}
        notes = {key: value for key, value in notes.items() if value is not None}
        encoded = rows.json_text(notes) if notes else None
        return await self._change("cancel_jobs", ids, encoded)

    async def retry_jobs(self, ids: Sequence[int], *, from_phase: str | None = None) -> list[Answered]:
        return await self._change("retry_jobs", ids, from_phase)

    async def delete_jobs(self, ids: Sequence[int]) -> list[Answered]:
        return await self._change("delete_jobs", ids, takes=TERMINAL)

    async def reschedule_jobs(
        self, ids: Sequence[int], *, run_at: datetime | None, delay_ms: int | None
    ) -> list[Answered]:
        return await self._change("reschedule_jobs", ids, run_at, delay_ms, takes=WAITING)

    async def reprioritise_jobs(self, ids: Sequence[int], priority: int) -> list[Answered]:
        return await self._change("reprioritise_jobs", ids, priority, takes=WAITING)

    async def _change(
        self, query: str, ids: Sequence[int], *args: object, takes: frozenset[JobState] = EVERY_STATE
    ) -> list[Answered]:
        """Change jobs, and ask again for those that moved while the statement looked for them.

        Each asking is a commit of its own, so that rows are always locked in the order of their ids.
        """
        answers: dict[int, Answered] = {}
        asked = sorted(set(ids))
        for look in range(_LOOKS):
            for job_id, answer, state, other in await self.fetch(query, asked, *args):
                answers[job_id] = Answered(job_id, Answer(answer), rows.state(state), other)
            asked = [job_id for job_id in asked if job_id not in answers]
            if not asked:
                break
            states = {job_id: rows.state(state) for job_id, state in await self.fetch("job_states", asked)}
            again = {job_id for job_id, state in states.items() if state in takes and look < _LOOKS - 1}
            for job_id in set(asked) - again:
                answer = Answer.WRONG_STATE if job_id in states else Answer.NOT_FOUND
                answers[job_id] = Answered(job_id, answer, states.get(job_id))
            asked = sorted(again)
        return [answers[job_id] for job_id in ids]


def _is_plain(job: NewJob) -> bool:
    """Whether a job may run now, and nothing has to be asked before it is stored."""
    return job.unique is None and job.key is None and job.run_at is None and job.delay_ms is None


def _values(job: NewJob) -> tuple[object, ...]:
    return (
        job.id,
        job.kind,
        job.queue,
        job.priority,
        job.payload,
        rows.json_text(job.tags) if job.tags else None,
        job.actor,
        job.max_attempts,
        job.max_crashes,
        job.timeout_ms,
        job.extra,
        job.parent,
    )


def insert_values(jobs: Sequence[NewJob], admission: str, *, again: bool = False) -> tuple[object, ...]:
    """Spread jobs over arrays; what is the same for all is sent once, for asyncpg looks long at every element."""
    return (
        [job.id for job in jobs],
        rows.once([job.kind for job in jobs]),
        rows.once([job.queue for job in jobs]),
        rows.once([job.priority for job in jobs]),
        [job.payload for job in jobs],
        rows.or_empty([job.run_at for job in jobs]),
        rows.or_empty([job.delay_ms for job in jobs]),
        rows.or_empty([job.unique for job in jobs]),
        rows.or_empty([job.unique_for_ms for job in jobs]),
        rows.or_empty([job.key for job in jobs]),
        rows.once([job.max_attempts for job in jobs]),
        rows.once([job.max_crashes for job in jobs]),
        rows.once([job.timeout_ms for job in jobs]),
        rows.or_empty([rows.json_text(job.tags) if job.tags else None for job in jobs]),
        rows.or_empty([job.actor for job in jobs]),
        again,
        rows.or_empty([job.extra for job in jobs]),
        admission,
        rows.or_empty(rows.once([job.parent for job in jobs])),
    )
