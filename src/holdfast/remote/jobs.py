"""Jobs, over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from holdfast.client.jobs import EVERY_JOB, JobId, List, Which, job_id, meant
from holdfast.duration import Duration, milliseconds
from holdfast.errors import JobNotFound, ResultTimeout, UniqueConflict, WrongState
from holdfast.job import Answer, JobState
from holdfast.public_id import encode
from holdfast.remote import filters
from holdfast.remote.link import Link
from holdfast.remote.namespace import RemoteNamespace
from holdfast.remote.stream import RemoteEvents
from holdfast.resources.enqueue import EnqueueRequest
from holdfast.resources.event import Event
from holdfast.resources.job import EnqueuedJob, Job, JobPage
from holdfast.resources.job_parts import (
    ItemPage,
    JobAnswer,
    JobItem,
    LogLine,
    LogPage,
    StateChange,
    StateChangeList,
    Why,
)
from holdfast.resources.job_requests import (
    CancelRequest,
    CloneRequest,
    ReprioritiseRequest,
    RescheduleRequest,
    RetryRequest,
)
from holdfast.resources.job_rows import end_of, is_end
from holdfast.resources.queue import JobCount, QueueList
from holdfast.resources.request import Request
from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, Stats

P = TypeVar("P", LogPage, ItemPage)

_AT_ONCE = 8
_WHOLE = 100  # jobs of one page
_LARGEST = 1_000  # lines and items of one page
_LOOK_S = 0.5


class RemoteJobs(RemoteNamespace):
    """The jobs of a server."""

    path = "jobs"

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def enqueue(self, request: EnqueueRequest) -> EnqueuedJob:
        """Store one job."""
        return await self._change("POST", EnqueuedJob, body=request)

    async def get(self, job: JobId) -> Job:
        """Read one job."""
        return await self._get(Job, _id(job))

    async def get_many(self, jobs: Sequence[JobId]) -> dict[str, Job]:
        """Read several; those that are not there are left out."""

        async def read(job: JobId) -> Job | None:
            async with self._places:
                try:
                    return await self.get(job)
                except JobNotFound:
                    return None

        return {job.id: job for job in await asyncio.gather(*map(read, jobs)) if job is not None}

    async def list(self, which: Which = EVERY_JOB, *, limit: int = 100, after: str | None = None) -> JobPage:
        """Read one page, newest first."""
        return await self.search(which, limit=limit, after=after)

    async def search(self, which: Which = EVERY_JOB, *, limit: int = 50, after: str | None = None) -> JobPage:
        """Find jobs, newest first; a server gives no more than a hundred of them at once."""
        q = filters.written(meant(which)) or None
        page = JobPage(jobs=[], next=after)
        while len(page.jobs) < limit:
            size = min(limit - len(page.jobs), _WHOLE)
            more = await self._get(JobPage, q=q, whole=True, limit=size, after=page.next)
            page = JobPage(jobs=[*page.jobs, *more.jobs], next=more.next, searched_to=more.searched_to)
            if page.next is None or page.searched_to is not None:
                break
        return page

    async def iterate(self, which: Which = EVERY_JOB) -> AsyncIterator[Job]:
        """Go through all jobs that fit, newest first."""
        after: str | None = None
        while True:
            page = await self.search(which, limit=_WHOLE, after=after)
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            after = page.next

    async def count(self, which: Which = EVERY_JOB) -> JobCount:
        """Count the jobs that fit a filter."""
        return await self._get(JobCount, "count", q=filters.written(meant(which)) or None)

    async def counts(self) -> dict[str, dict[JobState, JobCount]]:
        """Count the live jobs of each queue by state."""
        return {queue.name: queue.counts for queue in (await self._link.ask(QueueList, "GET", "queues")).queues}

    async def stats(
        self,
        *,
        project: str | None = None,
        phase: str | None = None,
        org_tag: str = ORG_TAG,
        project_tag: str = PROJECT_TAG,
    ) -> Stats:
        """Answer what operators ask first."""
        return await self._link.ask(
            Stats, "GET", "stats", project=project, phase=phase, org_tag=org_tag, project_tag=project_tag
        )

    async def why(self, job: JobId) -> Why:
        """Say why a job stands where it stands."""
        return await self._get(Why, _id(job), "why")

    async def events(self, job: JobId) -> List[StateChange]:
        """Read the changes of a job's state, oldest first."""
        return (await self._get(StateChangeList, _id(job), "events")).events

    async def logs(self, job: JobId) -> List[LogLine]:
        """Read what the handler of a job logged, oldest first."""
        return [line async for page in self._pages(LogPage, _id(job), "logs") for line in page.logs]

    async def items(self, job: JobId) -> List[JobItem]:
        """Read the items that a job works through, those that failed first."""
        return [item async for page in self._pages(ItemPage, _id(job), "items") for item in page.items]

    async def _pages(self, answer: type[P], *path: str) -> AsyncIterator[P]:
        after: str | None = None
        while True:
            page = await self._get(answer, *path, limit=_LARGEST, after=after)
            yield page
            if page.next is None:
                return
            after = page.next

    async def wait(self, job: JobId, timeout: Duration | None = None) -> Job:
        """Wait until a job has finished and return it; ResultTimeout when it takes longer."""
        timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1_000
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    seen = await self.get(job)
                    if seen.is_finished:
                        return seen
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            message = f"job {_id(job)} had not finished after {timeout_s:g} s; it goes on, ask again later"
            raise ResultTimeout(message) from None

    async def watch(self, job: JobId) -> AsyncGenerator[Event, None]:
        """Follow one job until it finishes; of one that has finished, there is only its end."""
        wanted = _id(job)
        async with RemoteEvents(self._link, jobs=frozenset({wanted})) as events:
            seen = await self.get(wanted)
            if seen.is_finished:
                yield end_of(seen)
                return
            async for event in events:
                yield event
                if is_end(event, seen.run):
                    return

    # ---- changing --------------------------------------------------------------------------------------------------

    async def cancel(self, job: JobId, *, actor: str | None = None, reason: str | None = None) -> Job:
        """Cancel a job."""
        return await self._post(job, "cancel", CancelRequest(reason=reason), actor=actor)

    async def retry(self, job: JobId, *, from_phase: str | None = None) -> Job:
        """Start a finished job over."""
        return await self._post(job, "retry", RetryRequest(from_phase=from_phase))

    async def delete(self, job: JobId) -> None:
        """Delete a finished job."""
        await self._link.delete(self.path, _id(job))

    async def reschedule(self, job: JobId, *, run_at: datetime | None = None, delay: Duration | None = None) -> Job:
        """Set when a waiting job may run."""
        seconds = None if delay is None else milliseconds(delay, "delay") / 1_000
        return await self._post(job, "reschedule", RescheduleRequest(run_at=run_at, delay=seconds))

    async def reprioritise(self, job: JobId, priority: int) -> Job:
        """Move a waiting job to another priority."""
        return await self._post(job, "reprioritise", ReprioritiseRequest(priority=priority))

    async def clone(self, job: JobId, changes: Mapping[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a changed copy of a finished job."""
        return await self._post(job, "clone", CloneRequest(args=dict(changes)), actor=actor)

    async def cancel_many(
        self, jobs: Sequence[JobId], *, actor: str | None = None, reason: str | None = None
    ) -> List[JobAnswer]:
        """Cancel jobs; one answer for each."""
        return [await self._answer(job, "cancel", CancelRequest(reason=reason), actor=actor) for job in jobs]

    async def retry_many(self, jobs: Sequence[JobId], *, from_phase: str | None = None) -> List[JobAnswer]:
        """Start finished jobs over; one answer for each."""
        return [await self._answer(job, "retry", RetryRequest(from_phase=from_phase)) for job in jobs]

    async def delete_many(self, jobs: Sequence[JobId]) -> List[JobAnswer]:
        """Delete finished jobs; one answer for each."""
        return [await self._answer(job, "delete", None) for job in jobs]

    async def reschedule_many(
        self, jobs: Sequence[JobId], *, run_at: datetime | None = None, delay: Duration | None = None
    ) -> List[JobAnswer]:
        """Set when waiting jobs may run; one answer for each."""
        seconds = None if delay is None else milliseconds(delay, "delay") / 1_000
        return [await self._answer(job, "reschedule", RescheduleRequest(run_at=run_at, delay=seconds)) for job in jobs]

    async def reprioritise_many(self, jobs: Sequence[JobId], priority: int) -> List[JobAnswer]:
        """Move waiting jobs to another priority; one answer for each."""
        return [await self._answer(job, "reprioritise", ReprioritiseRequest(priority=priority)) for job in jobs]

    async def _post(self, job: JobId, verb: str, body: Request, *, actor: str | None = None) -> Job:
        return await self._change("POST", Job, _id(job), verb, body=body, actor=actor)

    async def _answer(self, job: JobId, verb: str, body: Request | None, *, actor: str | None = None) -> JobAnswer:
        """Change one job; a refusal is an answer too, so that the next one has its turn."""
        wanted = _id(job)
        try:
            if body is None:
                await self.delete(wanted)
                return JobAnswer(id=wanted, answer=Answer.DONE)
            state = (await self._post(wanted, verb, body, actor=actor)).state
        except JobNotFound as error:
            return JobAnswer(id=wanted, answer=Answer.NOT_FOUND, error=str(error))
        except UniqueConflict as error:
            return JobAnswer(id=wanted, answer=Answer.UNIQUE_CLASH, error=str(error))
        except WrongState as error:
            state = (await self.get(wanted)).state
            return JobAnswer(id=wanted, answer=Answer.WRONG_STATE, state=state, error=str(error))
        is_asked = verb == "cancel" and state is JobState.RUNNING
        return JobAnswer(id=wanted, answer=Answer.REQUESTED if is_asked else Answer.DONE, state=state)


def _id(job: JobId) -> str:
    return encode(job_id(job))
