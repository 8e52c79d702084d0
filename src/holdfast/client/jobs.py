"""What callers and operators ask of jobs; ids are numbers or their public form everywhere.

Verbs on one job raise what went wrong in a sentence that says what to do next; the `*_many` forms answer for each job.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from holdfast import names, public_id
from holdfast.client.hints import SOON
from holdfast.client.refusals import require_done, state_after
from holdfast.client.repeat import until_answered
from holdfast.delivery.delivery import CANCEL_HINT, Delivery, Ready
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidValue, JobNotFound, shown
from holdfast.job import Job, JobState
from holdfast.payload import SECRET
from holdfast.resources.request import REASON_BYTES
from holdfast.stores.store import JobStore
from holdfast.stores.values import Answer, Answered, Count, Cursor, JobFilter, Page
from holdfast.tasks.options import due_time

T = TypeVar("T")

JobId = int | str
Answers = list[Answered]
Counts = list[Count]

LARGEST_PAGE = 1_000
EVERY_JOB = JobFilter()
_MAY_RUN_SOON = frozenset({JobState.QUEUED, JobState.SCHEDULED})


class JobVerbs:
    """The verbs of jobs, on one store."""

    def __init__(self, store: JobStore, deadline_s: float, delivery: Delivery) -> None:
        self._job_store = store
        self._deadline_s = deadline_s
        self.delivery = delivery

    async def get(self, job: JobId) -> Job:
        """Read one job, live or finished."""
        wanted = job_id(job)
        found = await self._read(lambda: self._job_store.get_jobs([wanted]), "get")
        if not found:
            raise JobNotFound(missing(wanted))
        return found[0]

    async def get_many(self, jobs: Sequence[JobId]) -> dict[int, Job]:
        """Read several jobs in one snapshot, by id; those that do not exist are left out."""
        ids = _ids(jobs)
        return {job.id: job for job in await self._read(lambda: self._job_store.get_jobs(ids), "get")}

    async def counts(self) -> Counts:
        """Count live jobs by queue and state; large numbers are capped."""
        return await self._read(self._job_store.count_jobs, "counts")

    async def cancel(self, job: JobId, *, actor: str | None = None, reason: str | None = None) -> JobState:
        """Cancel a job: a waiting one at once; a running one is told, and the answer is `running`."""
        return state_after("cancel", (await self.cancel_many([job], actor=actor, reason=reason))[0])

    async def cancel_many(
        self, jobs: Sequence[JobId], *, actor: str | None = None, reason: str | None = None
    ) -> Answers:
        """Cancel jobs; one answer for each."""
        ids = _ids(jobs)
        who, why = checked_actor(actor), checked_reason(reason)
        answers = await self._ask(lambda _: self._job_store.cancel_jobs(ids, actor=who, reason=why), "cancel")
        if any(answer.answer is Answer.REQUESTED for answer in answers):
            self.delivery.hint([CANCEL_HINT])
        return answers

    async def retry(self, job: JobId, *, from_phase: str | None = None) -> JobState:
        """Give a failed, cancelled or partly completed job a new life.

        Completed phases keep their results and are not run again; `from_phase` runs that one and all later ones anew.
        """
        return state_after("retry", (await self.retry_many([job], from_phase=from_phase))[0])

    async def retry_many(self, jobs: Sequence[JobId], *, from_phase: str | None = None) -> Answers:
        """Give finished jobs a new life; one answer for each."""
        ids = _ids(jobs)
        before = await self.get_many(ids)
        if from_phase is not None:
            _require_phase(before.values(), from_phase)

        async def ask(again: bool) -> Answers:  # noqa: FBT001 - the one question that until_answered answers
            if again:
                return await self._retry_unanswered(ids, before, from_phase)
            return await self._job_store.retry_jobs(ids, from_phase=from_phase)

        answers = await self._ask(ask, "retry")
        self._announce(before[done.id] for done in answers if done.answer is Answer.DONE and done.id in before)
        return answers

    async def delete(self, job: JobId) -> None:
        """Delete a finished job."""
        require_done("delete", (await self.delete_many([job]))[0])

    async def delete_many(self, jobs: Sequence[JobId]) -> Answers:
        """Delete finished jobs; one answer for each."""
        ids = _ids(jobs)
        seen = await self.get_many(ids)

        async def ask(again: bool) -> Answers:  # noqa: FBT001 - the one question that until_answered answers
            answers = await self._job_store.delete_jobs(ids)
            return [_deleted_before(answer, seen) for answer in answers] if again else answers

        return await self._ask(ask, "delete")

    async def reschedule(
        self, job: JobId, *, run_at: datetime | None = None, run_in: Duration | None = None
    ) -> JobState:
        """Set when a waiting job is due."""
        return state_after("reschedule", (await self.reschedule_many([job], run_at=run_at, run_in=run_in))[0])

    async def reschedule_many(
        self, jobs: Sequence[JobId], *, run_at: datetime | None = None, run_in: Duration | None = None
    ) -> Answers:
        """Set when waiting jobs are due; one answer for each."""
        ids = _ids(jobs)
        if (run_at is None) == (run_in is None):
            message = f"reschedule: expected either run_at or run_in, got run_at={run_at!r} and run_in={run_in!r}"
            raise InvalidValue(message)
        at = None if run_at is None else due_time(run_at)
        delay_ms = None if run_in is None else milliseconds(run_in, "run_in")
        answers = await self._ask(
            lambda _: self._job_store.reschedule_jobs(ids, run_at=at, delay_ms=delay_ms), "reschedule"
        )
        if delay_ms is None or delay_ms <= SOON // timedelta(milliseconds=1):  # or it is found in time without a hint
            moved = [answer.id for answer in answers if answer.answer is Answer.DONE]
            self._announce(job for job in (await self.get_many(moved)).values() if job.state in _MAY_RUN_SOON)
        return answers

    async def reprioritise(self, job: JobId, priority: int) -> JobState:
        """Move a waiting job to another priority, behind those that wait there."""
        return state_after("reprioritise", (await self.reprioritise_many([job], priority))[0])

    async def reprioritise_many(self, jobs: Sequence[JobId], priority: int) -> Answers:
        """Move waiting jobs to another priority; one answer for each."""
        ids = _ids(jobs)
        names.priority(priority)
        answers = await self._ask(lambda _: self._job_store.reprioritise_jobs(ids, priority), "reprioritise")
        moved = [answer.id for answer in answers if answer.answer is Answer.DONE]
        if moved and self.delivery.source is not None:  # its hint lies where its priority was
            self._announce(job for job in (await self.get_many(moved)).values() if job.state is JobState.QUEUED)
        return answers

    def _announce(self, jobs: Iterable[Job]) -> None:
        """Hint that jobs may run now, or in a moment."""
        now = round(time.time() * 1_000)
        self.delivery.announce([Ready(job.id, job.queue, job.priority, now, job.claim) for job in jobs])

    async def iterate(self, which: JobFilter = EVERY_JOB) -> AsyncIterator[Job]:
        """Go through all jobs that fit, newest first, reading page by page."""
        after: Cursor | None = None
        while True:
            page = await self.list(which, limit=LARGEST_PAGE, after=after)
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            after = page.next

    # Last in the class, because the built-in `list` means this method from here on.
    async def list(self, which: JobFilter = EVERY_JOB, *, limit: int = 100, after: Cursor | None = None) -> Page:
        """Read one page of jobs, newest first; `after` is the `next` of the page before."""
        names.count(limit, "limit", LARGEST_PAGE)
        stored = stored_filter(which)
        return await self._read(lambda: self._job_store.list_jobs(stored, limit=limit, after=after), "list")

    async def _retry_unanswered(self, ids: Sequence[int], before: dict[int, Job], from_phase: str | None) -> Answers:
        """Find out what a retry without an answer did: the life of a job tells; the others are asked again."""
        now = await self._job_store.get_jobs(ids)
        renewed = {job.id: job for job in now if job.id in before and job.life > before[job.id].life}
        rest = [wanted for wanted in ids if wanted not in renewed]
        answers = {wanted: Answered(wanted, Answer.DONE, job.state) for wanted, job in renewed.items()}
        if rest:
            answers |= {answer.id: answer for answer in await self._job_store.retry_jobs(rest, from_phase=from_phase)}
        return [answers[wanted] for wanted in ids]

    async def _ask(self, ask: Callable[[bool], Awaitable[T]], what: str) -> T:
        return await until_answered(ask, self._deadline_s, what)

    async def _read(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        return await until_answered(lambda _: ask(), self._deadline_s, what, changes=False)


def _require_phase(jobs: Iterable[Job], phase: str) -> None:
    """Refuse to begin again at a phase that a job does not have."""
    for job in jobs:
        known = [known.name for known in job.phases]
        if phase not in known:
            message = f"from_phase: expected a phase of job {job.public_id} ({', '.join(known) or 'it has none'}),"
            message += f" got {phase!r}"
            raise InvalidValue(message)


def job_id(job: JobId) -> int:
    """Read an id: a number, or its public form."""
    if isinstance(job, str):
        return public_id.decode(job)
    if isinstance(job, bool) or not isinstance(job, int) or not 0 <= job <= public_id.LARGEST:
        message = f"job id: expected a number of 60 bits or a form like htcx-2s16-z48b-09, got {job!r}"
        raise InvalidValue(message)
    return job


def missing(wanted: int) -> str:
    """Say that a job is not there, and what may have become of it."""
    return (
        f"job {public_id.encode(wanted)}: there is no such job; it was deleted, its retention has ended, or the"
        " transaction that enqueued it has not been committed"
    )


def stored_filter(which: JobFilter) -> JobFilter:
    """Check a filter, and write its names as they are stored."""
    return msgspec.structs.replace(
        which,
        ids=tuple(job_id(wanted) for wanted in which.ids),
        kinds=tuple(names.name(kind, "kind") for kind in which.kinds),
        queues=tuple(names.name(queue, "queue") for queue in which.queues),
        tags=tuple((names.name(tag, "tag name"), content) for tag, content in which.tags),
        states=tuple(_state(state) for state in which.states),
        priorities=tuple(names.priority(priority) for priority in which.priorities),
        args=tuple((_path(path), content) for path, content in which.args),
        parent=None if which.parent is None else job_id(which.parent),
        origin=None if which.origin is None else job_id(which.origin),
    )


def _path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse to look at secrets: whoever may not see one could find it out by asking."""
    if not path or SECRET in path:
        message = f"args: expected the names that lead to an argument, and to no secret, got {shown(path)}"
        raise InvalidValue(message)
    return path


def _state(state: str) -> JobState:
    try:
        return JobState(state)
    except ValueError:
        message = f"state: expected one of {', '.join(JobState)}, got {state!r}"
        raise InvalidValue(message) from None


def checked_actor(actor: str | None) -> str | None:
    """Check who asks."""
    return None if actor is None else names.text(actor, "actor", names.ACTOR_BYTES)


def checked_reason(reason: str | None) -> str | None:
    """Check why it is asked."""
    return None if reason is None else names.text(reason, "reason", REASON_BYTES)


def _ids(jobs: Sequence[JobId]) -> list[int]:
    return list(dict.fromkeys(job_id(job) for job in jobs))


def _deleted_before(answer: Answered, seen: dict[int, Job]) -> Answered:
    """Read "not found" after an unknown outcome: a job that was there before has been deleted."""
    if answer.answer is Answer.NOT_FOUND and answer.id in seen:
        return Answered(answer.id, Answer.DONE, None)
    return answer
