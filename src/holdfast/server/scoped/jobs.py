"""Jobs, as far as one caller may see them; one elsewhere is not there for them."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.clone import Check
from holdfast.client.jobs import EVERY_JOB, JobId, List, Which, job_id, meant, missing
from holdfast.client.local_jobs import LocalJobs
from holdfast.duration import Duration
from holdfast.errors import JobNotFound, UniqueConflict
from holdfast.job import JobRow, JobState
from holdfast.public_id import encode
from holdfast.resources.event import Event
from holdfast.resources.job import Job, JobPage
from holdfast.resources.job_parts import JobAnswer, JobItem, LogLine, StateChange, Why
from holdfast.resources.queue import JobCount
from holdfast.resources.redaction import redact
from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, Stats
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import NOWHERE, Scope
from holdfast.stores.values import JobFilter


class ScopedJobs(Scope):
    """The jobs of one caller, with their secrets covered."""

    def __init__(self, jobs: LocalJobs, principal: Principal, check: Check) -> None:
        super().__init__(principal)
        self._jobs = jobs
        self._check = check

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def get(self, job: JobId) -> Job:
        """Read a job; one in a queue that is not theirs is not there."""
        found = await self._jobs.get(job)
        if not self.sees(found.queue):  # guard: scope-job
            raise JobNotFound(missing(found.number))  # in the words of one that is not there
        return (await self._shown([found]))[0]

    async def get_many(self, jobs: Sequence[JobId]) -> dict[str, Job]:
        """Read several jobs; those in other queues are left out."""
        there = list((await self._jobs.get_many(jobs)).values())
        mine = [job for job in there if self.sees(job.queue)]  # guard: scope-chosen, without: mine = there
        return {job.id: job for job in await self._shown(mine)}

    async def list(self, which: Which = EVERY_JOB, *, limit: int = 100, after: str | None = None) -> JobPage:
        """Read one page of jobs, newest first."""
        return await self._page(await self._jobs.list(await self.chosen(which), limit=limit, after=after))

    async def search(self, which: Which = EVERY_JOB, *, limit: int = 50, after: str | None = None) -> JobPage:
        """Find the newest jobs that fit a filter."""
        return await self._page(await self._jobs.search(await self.chosen(which), limit=limit, after=after))

    async def iterate(self, which: Which = EVERY_JOB) -> AsyncIterator[Job]:
        """Go through all jobs that fit, newest first."""
        async for job in self._jobs.iterate(await self.chosen(which)):
            yield (await self._shown([job]))[0]

    async def count(self, which: Which = EVERY_JOB) -> JobCount:
        """Count the jobs that fit a filter."""
        return await self._jobs.count(await self.chosen(which))

    async def counts(self) -> dict[str, dict[JobState, JobCount]]:
        """Count the live jobs of each queue by state."""
        return {queue: counts for queue, counts in (await self._jobs.counts()).items() if self.sees(queue)}

    async def stats(
        self,
        *,
        project: str | None = None,
        phase: str | None = None,
        org_tag: str = ORG_TAG,
        project_tag: str = PROJECT_TAG,
    ) -> Stats:
        """Answer what operators ask first, of the jobs in their queues."""
        return await self._jobs.stats_of(
            self.among(), project=project, phase=phase, org_tag=org_tag, project_tag=project_tag
        )

    async def why(self, job: JobId) -> Why:
        """Say why a job stands where it stands; other jobs are named to those who may see all."""
        names_others = self.sees_all  # guard: scope-why, without: names_others = True
        return redact(await self._jobs.explain((await self.get(job)).id, naming=names_others))

    async def events(self, job: JobId) -> List[StateChange]:
        """Read the changes of a job's state, oldest first."""
        return redact(await self._jobs.events((await self.get(job)).id))

    async def logs(self, job: JobId) -> List[LogLine]:
        """Read what the handler of a job logged, oldest first."""
        return redact(await self._jobs.logs((await self.get(job)).id))

    async def items(self, job: JobId) -> List[JobItem]:
        """Read the items that a job works through, those that failed first."""
        return redact(await self._jobs.items((await self.get(job)).id))

    async def wait(self, job: JobId, timeout: Duration | None = None) -> Job:
        """Wait until a job has finished and return it."""
        await self._jobs.wait((await self.get(job)).id, timeout)
        return await self.get(job)

    async def watch(self, job: JobId) -> AsyncGenerator[Event, None]:
        """Follow one job until it finishes."""
        async for event in self._jobs.watch((await self.get(job)).id):
            yield redact(event)

    async def row(self, job: JobId) -> JobRow:
        """Read a job as the store has it, with the items as its handler named them; nothing is covered."""
        return await self._jobs.row((await self.get(job)).id)

    # ---- changing --------------------------------------------------------------------------------------------------

    async def cancel(self, job: JobId, *, actor: str | None = None, reason: str | None = None) -> Job:
        """Cancel a job."""
        wanted = (await self.get(job)).id
        await self._jobs.cancel(wanted, actor=self.acting(actor), reason=reason)
        return await self.get(wanted)

    async def retry(self, job: JobId, *, from_phase: str | None = None) -> Job:
        """Start a job over; one of other queues that stands in its way is not named."""
        wanted = (await self.get(job)).id
        try:
            await self._jobs.retry(wanted, from_phase=from_phase)
        except UniqueConflict as conflict:
            if self.sees_all or conflict.job_id is None:
                raise
            other = (await self._jobs.get_many([conflict.job_id])).get(encode(conflict.job_id))
            if other is not None and self.sees(other.queue):
                raise
            message = f"retry {wanted}: another job is live and holds its unique key; wait for that one"
            raise UniqueConflict(message) from None  # guard: scope-unique, without: raise
        return await self.get(wanted)

    async def delete(self, job: JobId) -> None:
        """Delete a finished job."""
        await self._jobs.delete((await self.get(job)).id)

    async def reschedule(self, job: JobId, *, run_at: datetime | None = None, delay: Duration | None = None) -> Job:
        """Set when a waiting job may run."""
        wanted = (await self.get(job)).id
        await self._jobs.reschedule(wanted, run_at=run_at, delay=delay)
        return await self.get(wanted)

    async def reprioritise(self, job: JobId, priority: int) -> Job:
        """Move a waiting job to another priority."""
        wanted = (await self.get(job)).id
        await self._jobs.reprioritise(wanted, priority)
        return await self.get(wanted)

    async def clone(self, job: JobId, changes: Mapping[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a changed copy of a finished job."""
        wanted = (await self.get(job)).id
        return await self.get((await self._jobs.clone_checked(wanted, changes, self._check, self.acting(actor))).id)

    async def cancel_many(
        self, jobs: Sequence[JobId], *, actor: str | None = None, reason: str | None = None
    ) -> List[JobAnswer]:
        """Cancel jobs; all must be theirs."""
        return await self._jobs.cancel_many(await self._own(jobs), actor=self.acting(actor), reason=reason)

    async def retry_many(self, jobs: Sequence[JobId], *, from_phase: str | None = None) -> List[JobAnswer]:
        """Start finished jobs over; all must be theirs."""
        return await self._jobs.retry_many(await self._own(jobs), from_phase=from_phase)

    async def delete_many(self, jobs: Sequence[JobId]) -> List[JobAnswer]:
        """Delete finished jobs; all must be theirs."""
        return await self._jobs.delete_many(await self._own(jobs))

    async def reschedule_many(
        self, jobs: Sequence[JobId], *, run_at: datetime | None = None, delay: Duration | None = None
    ) -> List[JobAnswer]:
        """Set when waiting jobs may run; all must be theirs."""
        return await self._jobs.reschedule_many(await self._own(jobs), run_at=run_at, delay=delay)

    async def reprioritise_many(self, jobs: Sequence[JobId], priority: int) -> List[JobAnswer]:
        """Move waiting jobs to another priority; all must be theirs."""
        return await self._jobs.reprioritise_many(await self._own(jobs), priority)

    # ---- which of them ---------------------------------------------------------------------------------------------

    async def chosen(self, which: Which) -> JobFilter:
        """Let a filter find what they may see, and nothing by naming a job that they may not.

        They do not learn what came of such a job, so that it did must not be found out by trying ids.
        """
        wanted = meant(which)
        named = [other for other in (wanted.parent, wanted.origin) if other is not None]
        if self.sees_all or not named:
            return self.narrowed(wanted)
        there = await self._jobs.get_many(named)
        is_theirs = all((job := there.get(encode(other))) is not None and self.sees(job.queue) for other in named)
        if not is_theirs:  # guard: scope-kinship
            return msgspec.structs.replace(wanted, queues=(NOWHERE,))
        return self.narrowed(wanted)

    async def _own(self, jobs: Sequence[JobId]) -> List[str]:
        wanted = list(dict.fromkeys(job_id(job) for job in jobs))
        there = await self.get_many(wanted)
        if (gone := next((job for job in wanted if encode(job) not in there), None)) is not None:
            raise JobNotFound(missing(gone))
        return [encode(job) for job in wanted]

    async def _page(self, page: JobPage) -> JobPage:
        return replace(page, jobs=await self._shown(page.jobs))

    async def _shown(self, jobs: Sequence[Job]) -> List[Job]:
        """Cover secrets; leave out which jobs they came of where those are in other queues or gone, so not known."""
        shown = [redact(job) for job in jobs]
        named = {other for job in shown for other in (job.parent, job.origin) if other is not None}
        if self.sees_all or not named:
            return shown
        there = (await self._jobs.get_many(sorted(named))).values()
        known = {job.id for job in there if self.sees(job.queue)}  # guard: scope-origins, without: known = named

        def seen(other: str | None) -> str | None:
            return other if other in known else None

        return [replace(job, parent=seen(job.parent), origin=seen(job.origin)) for job in shown]
