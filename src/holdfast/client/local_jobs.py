"""Jobs, on one store."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from holdfast import names
from holdfast.client.clone import Check, Cloner, CloneStore
from holdfast.client.cursors import cursor_text, read_cursor
from holdfast.client.hints import SOON
from holdfast.client.jobs import (
    EVERY_JOB,
    LARGEST_PAGE,
    JobId,
    List,
    Which,
    checked_actor,
    checked_reason,
    job_id,
    meant,
    missing,
)
from holdfast.client.refusals import job_answer
from holdfast.client.repeat import until_answered
from holdfast.client.stats import added_up, read_stats
from holdfast.client.subscription import EventFilter, EventsMissed
from holdfast.client.waiting import Waiting
from holdfast.client.watching import Watching
from holdfast.client.why import ahead_of, explain, unnamed
from holdfast.config import Settings
from holdfast.delivery.delivery import CANCEL_HINT, Delivery, Ready
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidValue, JobNotFound
from holdfast.job import Answer, JobRow, JobState
from holdfast.public_id import encode
from holdfast.resources import job_rows
from holdfast.resources.event import Event
from holdfast.resources.job import Job, JobPage
from holdfast.resources.job_parts import JobAnswer, JobItem, LogLine, StateChange, Why
from holdfast.resources.queue import JobCount
from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, Stats
from holdfast.stores.searching import BUDGET_MS, COUNT_CAP, COUNTING_MS, SearchStore
from holdfast.stores.store import EventStore, UpkeepStore
from holdfast.stores.values import Answered, Cursor
from holdfast.stores.why import WhyStore
from holdfast.tasks.options import due_time
from holdfast.tasks.registry import Registry

T = TypeVar("T")

_Answers = list[Answered]

_MAY_RUN_SOON = frozenset({JobState.QUEUED, JobState.SCHEDULED})


class JobsStore(CloneStore, SearchStore, WhyStore, EventStore, UpkeepStore, Protocol):
    """What jobs need of a store."""


class LocalJobs:
    """The jobs of one store."""

    def __init__(
        self, store: JobsStore, settings: Settings, delivery: Delivery, watching: Watching, tasks: Registry
    ) -> None:
        self._store = store
        self._deadline_s = settings.deadline_s
        self._delivery = delivery
        self._watching = watching
        self._tasks = tasks
        self._waiting = Waiting(store)
        self._cloner = Cloner(store, settings, delivery)

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def get(self, job: JobId) -> Job:
        """Read one job, live or finished."""
        return job_rows.job(await self.row(job))

    async def get_many(self, jobs: Sequence[JobId]) -> dict[str, Job]:
        """Read several jobs in one snapshot, by their public ids; those that do not exist are left out."""
        return {row.public_id: job_rows.job(row) for row in (await self._rows(_ids(jobs))).values()}

    async def list(self, which: Which = EVERY_JOB, *, limit: int = 100, after: str | None = None) -> JobPage:
        """Read one page of jobs, newest first; `after` is the `next` of the page before."""
        names.count(limit, "limit", LARGEST_PAGE)
        wanted, start = meant(which), _start(after)
        page = await self._read(lambda: self._store.list_jobs(wanted, limit=limit, after=start), "list")
        return JobPage(jobs=[job_rows.job(row) for row in page.jobs], next=_next(page.next))

    async def search(self, which: Which = EVERY_JOB, *, limit: int = 50, after: str | None = None) -> JobPage:
        """Find the newest jobs that fit a filter, within a moment."""
        names.count(limit, "limit", LARGEST_PAGE)
        wanted, start = meant(which), _start(after)
        found = await self._read(
            lambda: self._store.search_jobs(wanted, limit=limit, after=start, budget_ms=BUDGET_MS), "search"
        )
        return JobPage(
            jobs=[job_rows.job(row) for row in found.jobs],
            next=_next(found.next),
            searched_to=None if found.is_whole else found.searched_to,
        )

    async def iterate(self, which: Which = EVERY_JOB) -> AsyncIterator[Job]:
        """Go through all jobs that fit, newest first, reading page by page."""
        after: str | None = None
        while True:
            page = await self.list(which, limit=LARGEST_PAGE, after=after)
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            after = page.next

    async def count(self, which: Which = EVERY_JOB) -> JobCount:
        """Count the jobs that fit a filter, for a moment."""
        wanted = meant(which)
        counted = await self._read(
            lambda: self._store.count_found(wanted, most=COUNT_CAP, budget_ms=COUNTING_MS), "count"
        )
        return JobCount(jobs=counted.jobs, capped=counted.capped)

    async def counts(self) -> dict[str, dict[JobState, JobCount]]:
        """Count the live jobs of each queue by state."""
        return added_up(await self._read(self._store.count_jobs, "counts"))

    async def stats(
        self,
        *,
        project: str | None = None,
        phase: str | None = None,
        org_tag: str = ORG_TAG,
        project_tag: str = PROJECT_TAG,
    ) -> Stats:
        """Answer what operators ask first."""
        return await self.stats_of((), project=project, phase=phase, org_tag=org_tag, project_tag=project_tag)

    async def stats_of(
        self, queues: Sequence[str], *, project: str | None, phase: str | None, org_tag: str, project_tag: str
    ) -> Stats:
        """Answer it of these queues only; of all where none is named."""
        return await read_stats(
            self._store, project=project, phase=phase, org_tag=org_tag, project_tag=project_tag, queues=queues
        )

    async def why(self, job: JobId) -> Why:
        """Say why a job stands where it stands."""
        return await self.explain(job, naming=True)

    async def explain(self, job: JobId, *, naming: bool) -> Why:
        """Say why a job stands where it stands; without `naming`, no other job is named."""
        wanted, before = job_id(job), datetime.now(UTC)
        evidence = await self._read(lambda: self._store.explain_job(wanted), "why")
        after = datetime.now(UTC)
        if evidence is None:
            raise JobNotFound(missing(wanted))
        why = explain(evidence if naming else unnamed(evidence), ahead=ahead_of(before, after, evidence.now))
        secrets = job_rows.secrets_of(evidence.job)
        return Why(why.reason, secrets.text(why.sentence) or "", secrets.cover(why.details))

    async def events(self, job: JobId) -> List[StateChange]:
        """Read the changes of a job's state, oldest first; at most the last hundred."""
        return job_rows.state_changes(await self.row(job))

    async def logs(self, job: JobId) -> List[LogLine]:
        """Read what the handler of a job logged, oldest first."""
        return job_rows.log_lines(await self.row(job))

    async def items(self, job: JobId) -> List[JobItem]:
        """Read the items that a job works through, those that failed first."""
        return job_rows.job_items(await self.row(job))

    # ---- following -------------------------------------------------------------------------------------------------

    async def wait(self, job: JobId, timeout: Duration | None = None) -> Job:
        """Wait until a job has finished and return it; ResultTimeout when it takes longer."""
        return job_rows.job(await self.finished_row(job, timeout))

    async def finished_row(self, job: JobId, timeout: Duration | None) -> JobRow:
        """Wait until a job has finished and return its row, of which a handle reads the result."""
        return await self._waiting.ended(job_id(job), timeout)

    async def watch(self, job: JobId) -> AsyncGenerator[Event, None]:
        """Follow one job: everything that happens to it from here on, until it finishes."""
        wanted = encode(job_id(job))
        async with self._watching.subscribe(EventFilter(jobs=frozenset({wanted}))) as events:
            seen = await self.get(wanted)
            while not seen.is_finished:
                try:
                    event = await anext(events, None)
                except EventsMissed:
                    seen = await self.get(wanted)
                    continue
                if event is None:
                    return
                yield event
                if job_rows.is_end(event, seen.run):
                    return
            yield job_rows.end_of(seen)

    async def close(self) -> None:
        """End every wait; the jobs go on."""
        await self._waiting.close()

    # ---- one job ---------------------------------------------------------------------------------------------------

    async def cancel(self, job: JobId, *, actor: str | None = None, reason: str | None = None) -> Job:
        """Cancel a job: a waiting one at once; a running one is asked to stop."""
        return await self._changed(await self.cancel_many([job], actor=actor, reason=reason))

    async def retry(self, job: JobId, *, from_phase: str | None = None) -> Job:
        """Start a failed, cancelled or partly completed job over."""
        return await self._changed(await self.retry_many([job], from_phase=from_phase))

    async def delete(self, job: JobId) -> None:
        """Delete a finished job."""
        (answer,) = await self.delete_many([job])
        answer.require_done()

    async def reschedule(self, job: JobId, *, run_at: datetime | None = None, delay: Duration | None = None) -> Job:
        """Set when a waiting job may run."""
        return await self._changed(await self.reschedule_many([job], run_at=run_at, delay=delay))

    async def reprioritise(self, job: JobId, priority: int) -> Job:
        """Move a waiting job to another priority, behind those that wait there."""
        return await self._changed(await self.reprioritise_many([job], priority))

    async def clone(self, job: JobId, changes: Mapping[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a changed copy of a finished job."""
        return await self.clone_checked(job, changes, self._check, actor)

    async def clone_checked(self, job: JobId, changes: Mapping[str, Any], check: Check, actor: str | None) -> Job:
        """Enqueue a changed copy of a finished job, whose arguments `check` checks."""
        return await self.get(await self._cloner.clone(await self.row(job), changes, actor, check))

    # ---- many jobs -------------------------------------------------------------------------------------------------

    async def cancel_many(
        self, jobs: Sequence[JobId], *, actor: str | None = None, reason: str | None = None
    ) -> List[JobAnswer]:
        """Cancel jobs; one answer for each."""
        ids = _ids(jobs)
        who, why = checked_actor(actor), checked_reason(reason)
        answers = await self._ask(lambda _: self._store.cancel_jobs(ids, actor=who, reason=why), "cancel")
        if any(answer.answer is Answer.REQUESTED for answer in answers):
            self._delivery.hint([CANCEL_HINT])
        return [job_answer("cancel", answer) for answer in answers]

    async def retry_many(self, jobs: Sequence[JobId], *, from_phase: str | None = None) -> List[JobAnswer]:
        """Start finished jobs over; one answer for each."""
        ids = _ids(jobs)
        before = await self._rows(ids)
        if from_phase is not None:
            _require_phase(before.values(), from_phase)

        async def ask(again: bool) -> _Answers:  # noqa: FBT001 - the one question that until_answered answers
            if again:
                return await self._retry_unanswered(ids, before, from_phase)
            return await self._store.retry_jobs(ids, from_phase=from_phase)

        answers = await self._ask(ask, "retry")
        self._announce(before[done.id] for done in answers if done.answer is Answer.DONE and done.id in before)
        return [job_answer("retry", answer) for answer in answers]

    async def delete_many(self, jobs: Sequence[JobId]) -> List[JobAnswer]:
        """Delete finished jobs; one answer for each."""
        ids = _ids(jobs)
        seen = await self._rows(ids)

        async def ask(again: bool) -> _Answers:  # noqa: FBT001 - the one question that until_answered answers
            answers = await self._store.delete_jobs(ids)
            return [_deleted_before(answer, seen) for answer in answers] if again else answers

        return [job_answer("delete", answer) for answer in await self._ask(ask, "delete")]

    async def reschedule_many(
        self, jobs: Sequence[JobId], *, run_at: datetime | None = None, delay: Duration | None = None
    ) -> List[JobAnswer]:
        """Set when waiting jobs may run; one answer for each."""
        ids = _ids(jobs)
        if (run_at is None) == (delay is None):
            message = f"reschedule: expected either run_at or delay, got run_at={run_at!r} and delay={delay!r}"
            raise InvalidValue(message)
        at = None if run_at is None else due_time(run_at)
        delay_ms = None if delay is None else milliseconds(delay, "delay")
        answers = await self._ask(
            lambda _: self._store.reschedule_jobs(ids, run_at=at, delay_ms=delay_ms), "reschedule"
        )
        if delay_ms is None or delay_ms <= SOON // timedelta(milliseconds=1):  # or it is found in time without a hint
            moved = [answer.id for answer in answers if answer.answer is Answer.DONE]
            self._announce(row for row in (await self._rows(moved)).values() if row.state in _MAY_RUN_SOON)
        return [job_answer("reschedule", answer) for answer in answers]

    async def reprioritise_many(self, jobs: Sequence[JobId], priority: int) -> List[JobAnswer]:
        """Move waiting jobs to another priority; one answer for each."""
        ids = _ids(jobs)
        names.priority(priority)
        answers = await self._ask(lambda _: self._store.reprioritise_jobs(ids, priority), "reprioritise")
        moved = [answer.id for answer in answers if answer.answer is Answer.DONE]
        if moved and self._delivery.source is not None:  # its hint lies where its priority was
            self._announce(row for row in (await self._rows(moved)).values() if row.state is JobState.QUEUED)
        return [job_answer("reprioritise", answer) for answer in answers]

    # ---- the store -------------------------------------------------------------------------------------------------

    async def row(self, job: JobId) -> JobRow:
        """Read a job as the store has it."""
        wanted = job_id(job)
        rows = await self._rows([wanted])
        if not rows:
            raise JobNotFound(missing(wanted))
        return rows[wanted]

    async def _rows(self, ids: Sequence[int]) -> dict[int, JobRow]:
        return {row.id: row for row in await self._read(lambda: self._store.get_jobs(ids), "get")}

    async def _changed(self, answers: Sequence[JobAnswer]) -> Job:
        """Read the one job that a verb has changed, or raise why it was refused."""
        (answer,) = answers
        answer.require_done()
        return await self.get(answer.id)

    async def _check(self, kind: str, arguments: str) -> str:
        return self._tasks.get(kind).arguments.check(arguments) if kind in self._tasks else arguments

    def _announce(self, rows: Iterable[JobRow]) -> None:
        """Hint that jobs may run now, or in a moment."""
        now = round(time.time() * 1_000)
        self._delivery.announce([Ready(row.id, row.queue, row.priority, now, row.claim) for row in rows])

    async def _retry_unanswered(
        self, ids: Sequence[int], before: dict[int, JobRow], from_phase: str | None
    ) -> _Answers:
        """Find out what a retry without an answer did: the run of a job tells; the others are asked again."""
        now = await self._store.get_jobs(ids)
        renewed = {row.id: row for row in now if row.id in before and row.life > before[row.id].life}
        rest = [wanted for wanted in ids if wanted not in renewed]
        answers = {wanted: Answered(wanted, Answer.DONE, row.state) for wanted, row in renewed.items()}
        if rest:
            answers |= {answer.id: answer for answer in await self._store.retry_jobs(rest, from_phase=from_phase)}
        return [answers[wanted] for wanted in ids]

    async def _ask(self, ask: Callable[[bool], Awaitable[T]], what: str) -> T:
        return await until_answered(ask, self._deadline_s, what)

    async def _read(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        return await until_answered(lambda _: ask(), self._deadline_s, what, changes=False)


def _require_phase(rows: Iterable[JobRow], phase: str) -> None:
    """Refuse to begin again at a phase that a job does not have."""
    for row in rows:
        known = [known.name for known in row.phases]
        if phase not in known:
            message = f"from_phase: expected a phase of job {row.public_id} ({', '.join(known) or 'it has none'}),"
            message += f" got {phase!r}"
            raise InvalidValue(message)


def _ids(jobs: Sequence[JobId]) -> list[int]:
    return list(dict.fromkeys(job_id(job) for job in jobs))


def _deleted_before(answer: Answered, seen: dict[int, JobRow]) -> Answered:
    """Read "not found" after an unknown outcome: a job that was there before has been deleted."""
    if answer.answer is Answer.NOT_FOUND and answer.id in seen:
        return Answered(answer.id, Answer.DONE, None)
    return answer


def _start(after: str | None) -> Cursor | None:
    return None if after is None else read_cursor(after)


def _next(cursor: Cursor | None) -> str | None:
    return None if cursor is None else cursor_text(cursor)
