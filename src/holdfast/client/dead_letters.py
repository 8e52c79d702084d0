"""Dead letters: the jobs that have failed, in groups of one kind and cause; replaying, purging and exporting them.

A group is known by a short id, which is the same as long as kind and cause are. A change to many jobs is a bulk
operation (see `client.bulk`).
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Protocol, Unpack

import msgspec

from holdfast import names, public_id
from holdfast.client.bulk import BulkOperations, job_count
from holdfast.client.jobs import LARGEST_PAGE, Jobs
from holdfast.client.repeat import until_answered
from holdfast.errors import DeadLetterNotFound, InvalidValue, shown
from holdfast.job import JobState
from holdfast.resources.bulk import BulkOperation, BulkVerb
from holdfast.resources.dead_letter import DeadLetter, DeadLetterGroup, DeadLetterGroupPage, FailedJobs
from holdfast.resources.job import Job
from holdfast.resources.queue import JobCount
from holdfast.resources.redaction import redact
from holdfast.stores.failures import DeadCursor, DeadFilter, DeadLetterRow, DeadPage, FailureStore, group_id
from holdfast.stores.values import JobFilter

_ID_LENGTH = 12
_MARK = "~"


class DeadLetters(Protocol):
    """What can be asked of failed jobs, and done to them.

    They are chosen by a group, or by conditions that must all hold.
    """

    async def list(
        self, *, empty: bool = False, limit: int = 100, after: str | None = None, **which: Unpack[FailedJobs]
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first; with `empty` also those that have no job left.

        `since` is when a job was last added to the group; `after` is `next` of the page before.
        """

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id; DeadLetterNotFound when there is none."""

    async def filter(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobFilter:
        """Make the filter of failed jobs, for lists of jobs and bulk operations."""

    async def preview(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobCount:
        """Count the failed jobs that a replay or a purge would change now, at most 10,000 of them."""

    async def replay(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Start failed jobs over, as a bulk operation; to start one job over, retry it."""

    async def purge(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Delete failed jobs, as a bulk operation."""

    def export(self, group: str | None = None, **which: Unpack[FailedJobs]) -> AsyncIterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""


class LocalDeadLetters:
    """The dead letters of one store."""

    def __init__(self, store: FailureStore, deadline_s: float, bulk: BulkOperations, jobs: Jobs) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._bulk = bulk
        self._jobs = jobs

    async def list(
        self, *, empty: bool = False, limit: int = 100, after: str | None = None, **which: Unpack[FailedJobs]
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first."""
        names.count(limit, "limit", LARGEST_PAGE)
        return group_page(await self._read(failed_groups(empty=empty, **which), limit, read_cursor(after)))

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id."""
        which = DeadFilter(ids=(group_named(group),), empty=True)
        return only_group(await self._read(which, 1, None), group)

    async def filter(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobFilter:
        """Make the filter of failed jobs."""
        found = None if group is None else await self.get(group)
        return failed_jobs(found, **which)

    async def preview(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobCount:
        """Count the failed jobs that a replay or a purge would change now."""
        return await self._bulk.preview(BulkVerb.RETRY, await self.filter(group, **which))

    async def replay(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Start failed jobs over, as a bulk operation."""
        jobs = await self.filter(group, **which)
        return await self._bulk.start(BulkVerb.RETRY, jobs, rate=rate, actor=actor, reason=reason)

    async def purge(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Delete failed jobs, as a bulk operation."""
        jobs = await self.filter(group, **which)
        return await self._bulk.start(BulkVerb.DELETE, jobs, rate=rate, actor=actor, reason=reason)

    async def export(self, group: str | None = None, **which: Unpack[FailedJobs]) -> AsyncIterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""
        async for job in self._jobs.iterate(await self.filter(group, **which)):
            yield dead_letter(job)

    async def _read(self, which: DeadFilter, limit: int, after: DeadCursor | None) -> DeadPage:
        return await until_answered(
            lambda _: self._store.list_dead_letters(which, limit=limit, after=after),
            self._deadline_s,
            "dead letters",
            changes=False,
        )


def dead_letter(job: Job) -> DeadLetter:
    """Describe a failed job, with its secrets covered wherever they are quoted."""
    shown = redact(job)
    return DeadLetter(
        id=job.id,
        group=group_id(job.kind, job.error_fingerprint or ""),
        kind=job.kind,
        queue=job.queue,
        priority=job.priority,
        args=shown.args,  # guard: exported-payload, without: args=job.args,
        tags=job.tags,
        actor=job.actor,
        run=job.run,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        crashes=job.crashes,
        enqueued_at=job.enqueued_at,
        finished_at=job.finished_at,
        error_class=job.error_class,
        error=shown.error,
        error_fingerprint=shown.error_fingerprint,
        traceback=shown.traceback,
    )


def failed_groups(*, empty: bool, **which: Unpack[FailedJobs]) -> DeadFilter:
    """Choose groups of failed jobs for which all conditions hold."""
    chosen = failed_jobs(None, **which)
    return DeadFilter(
        kinds=chosen.kinds,
        queues=chosen.queues,
        error_class=chosen.error_class,
        since=chosen.finished_from,
        empty=empty,
    )


def failed_jobs(
    group: DeadLetterGroup | None,
    *,
    kind: str | None = None,
    queue: str | None = None,
    error: str | None = None,
    since: datetime | None = None,
) -> JobFilter:
    """Choose failed jobs of a group, if there is one, for which all conditions hold."""
    chosen = JobFilter(
        states=(JobState.FAILED,),
        kinds=named(kind, "kind"),
        queues=named(queue, "queue"),
        error_class=error,
        finished_from=since,
    )
    if group is None:
        return chosen
    if kind is not None and chosen.kinds != (group.kind,):
        message = f"kind: expected {group.kind}, which is that of group {group.id}, or none, got {shown(kind)}"
        raise InvalidValue(message)
    return msgspec.structs.replace(chosen, kinds=(group.kind,), fingerprint=group.fingerprint)


def named(name: str | None, what: str) -> tuple[str, ...]:
    """Check a name that may be left out."""
    return () if name is None else (names.name(name, what),)


def group_named(group: str) -> str:
    """Check the id of a group."""
    if not isinstance(group, str) or len(group) != _ID_LENGTH or group.strip("0123456789abcdef"):
        message = (
            f"group: expected twelve digits like 3f9a0c71be42, as `dead-letters list` shows them, got {shown(group)}"
        )
        raise InvalidValue(message)
    return group


def only_group(page: DeadPage, group: str) -> DeadLetterGroup:
    """Give the group that was looked for by its id."""
    if not page.groups:
        message = f"dead letters {group}: there is no such group; list them with `holdfast dead-letters list`"
        raise DeadLetterNotFound(message)
    return _group(page.groups[0])


def group_page(page: DeadPage) -> DeadLetterGroupPage:
    """Describe a page of groups."""
    return DeadLetterGroupPage(groups=[_group(row) for row in page.groups], next=_cursor_text(page.next))


def read_cursor(text: str | None) -> DeadCursor | None:
    """Read where a page of groups begins."""
    if text is None:
        return None
    moment, _, group = text.partition(_MARK)
    try:
        at = datetime.fromisoformat(moment.replace(" ", "+"))  # which an unescaped plus of an address has become
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not group:
        message = f"after: expected `next` of the page before, got {shown(text)}"
        raise InvalidValue(message)
    return DeadCursor(at, group)


def _cursor_text(cursor: DeadCursor | None) -> str | None:
    if cursor is None:
        return None
    return f"{cursor.last_at.astimezone(UTC).isoformat().replace('+00:00', 'Z')}{_MARK}{cursor.id}"


def _group(row: DeadLetterRow) -> DeadLetterGroup:
    return DeadLetterGroup(
        id=row.id,
        kind=row.kind,
        queue=row.queue,
        error_class=row.error_class,
        error=row.error,
        fingerprint=row.fingerprint,
        seen=row.seen,
        left=job_count(row.left),
        first_at=row.first_at,
        last_at=row.last_at,
        last_job=public_id.encode(row.last_job),
    )
