"""What can be asked of jobs, and done to them; ids are numbers or their public form everywhere.

Verbs on one job raise what went wrong in a sentence that says what to do next; the `*_many` forms answer for each job.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from holdfast import filtering, names, public_id
from holdfast.duration import Duration
from holdfast.errors import InvalidValue, shown
from holdfast.filtering import Query
from holdfast.job import JobState
from holdfast.payload import SECRET
from holdfast.resources.event import Event
from holdfast.resources.job import Job, JobPage
from holdfast.resources.job_parts import JobAnswer, JobItem, LogLine, StateChange, Why
from holdfast.resources.queue import JobCount
from holdfast.resources.request import REASON_BYTES
from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, Stats
from holdfast.stores.values import JobFilter

List = list  # one of the verbs has that name

JobId = int | str
Which = JobFilter | Query | str
"""A filter: as values, as it was read, or as it is written."""

LARGEST_PAGE = 1_000
EVERY_JOB = JobFilter()


class Jobs(Protocol):
    """What can be asked of jobs, and done to them."""

    async def get(self, job: JobId) -> Job:
        """Read one job, live or finished; JobNotFound when there is none."""

    async def get_many(self, jobs: Sequence[JobId]) -> dict[str, Job]:
        """Read several jobs in one snapshot, by their public ids; those that do not exist are left out."""

    async def list(self, which: Which = EVERY_JOB, *, limit: int = 100, after: str | None = None) -> JobPage:
        """Read one page of jobs, newest first; `after` is the `next` of the page before."""

    async def search(self, which: Which = EVERY_JOB, *, limit: int = 50, after: str | None = None) -> JobPage:
        """Find the newest jobs that fit a filter such as `"kind:send_email state:failed since:1h"`.

        It takes a moment and no longer: arguments and text are searched newest first, and when the time is over the
        answer is what was found so far, how far back that is, and where to go on.
        """

    def iterate(self, which: Which = EVERY_JOB) -> AsyncIterator[Job]:
        """Go through all jobs that fit, newest first, reading page by page."""

    async def count(self, which: Which = EVERY_JOB) -> JobCount:
        """Count the jobs that fit a filter, for a moment; `capped` says that there may be more."""

    async def counts(self) -> dict[str, dict[JobState, JobCount]]:
        """Count the live jobs of each queue by state."""

    async def stats(
        self,
        *,
        project: str | None = None,
        phase: str | None = None,
        org_tag: str = ORG_TAG,
        project_tag: str = PROJECT_TAG,
    ) -> Stats:
        """Answer what operators ask first: what waits, runs, has failed, has completed and is slow.

        The tags hold the ids of organisations and projects; `project` and `phase` choose among the jobs with items.
        """

    async def why(self, job: JobId) -> Why:
        """Say why a job stands where it stands: what it waits for, and who keeps it waiting."""

    async def events(self, job: JobId) -> List[StateChange]:
        """Read the changes of a job's state, oldest first; at most the last hundred."""

    async def logs(self, job: JobId) -> List[LogLine]:
        """Read what the handler of a job logged, oldest first."""

    async def items(self, job: JobId) -> List[JobItem]:
        """Read the items that a job works through, those that failed first."""

    async def wait(self, job: JobId, timeout: Duration | None = None) -> Job:
        """Wait until a job has finished and return it; ResultTimeout when it takes longer."""

    def watch(self, job: JobId) -> AsyncGenerator[Event, None]:
        """Follow one job: everything that happens to it from here on, until it finishes.

        Of a job that has finished already it gives that end, and nothing else.
        """

    async def cancel(self, job: JobId, *, actor: str | None = None, reason: str | None = None) -> Job:
        """Cancel a job: a waiting one at once; a running one is asked to stop."""

    async def retry(self, job: JobId, *, from_phase: str | None = None) -> Job:
        """Start a failed, cancelled or partly completed job over.

        Completed phases keep their results and are not run again; `from_phase` runs that one and all later ones again.
        """

    async def delete(self, job: JobId) -> None:
        """Delete a finished job."""

    async def reschedule(self, job: JobId, *, run_at: datetime | None = None, delay: Duration | None = None) -> Job:
        """Set when a waiting job may run."""

    async def reprioritise(self, job: JobId, priority: int) -> Job:
        """Move a waiting job to another priority, behind those that wait there."""

    async def clone(self, job: JobId, changes: Mapping[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a changed copy of a finished job, which names it as its `origin`; the old one stays as it is.

        `changes` are the arguments that differ; a task that is known checks them.
        """

    async def cancel_many(
        self, jobs: Sequence[JobId], *, actor: str | None = None, reason: str | None = None
    ) -> List[JobAnswer]:
        """Cancel jobs; one answer for each."""

    async def retry_many(self, jobs: Sequence[JobId], *, from_phase: str | None = None) -> List[JobAnswer]:
        """Start finished jobs over; one answer for each."""

    async def delete_many(self, jobs: Sequence[JobId]) -> List[JobAnswer]:
        """Delete finished jobs; one answer for each."""

    async def reschedule_many(
        self, jobs: Sequence[JobId], *, run_at: datetime | None = None, delay: Duration | None = None
    ) -> List[JobAnswer]:
        """Set when waiting jobs may run; one answer for each."""

    async def reprioritise_many(self, jobs: Sequence[JobId], priority: int) -> List[JobAnswer]:
        """Move waiting jobs to another priority; one answer for each."""


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


def meant(which: Which) -> JobFilter:
    """Read a filter, and write its names as they are stored."""
    if isinstance(which, str):
        which = filtering.parse(which, datetime.now(UTC))
    return stored_filter(which.where if isinstance(which, Query) else which)
