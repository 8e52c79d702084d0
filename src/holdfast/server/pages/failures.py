"""The page of failures: what fails now or has failed lately, by kind and error."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from fastapi import Form, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from holdfast.job import JobState
from holdfast.resources.bulk import BulkVerb
from holdfast.resources.dead_letter import DeadLetterGroup
from holdfast.resources.job import Job
from holdfast.resources.queue import JobCount
from holdfast.server.pages import drawing
from holdfast.server.pages.operations import latest_operations, started
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.failures import group_id
from holdfast.stores.values import JobFilter
from holdfast.telemetry.redaction import hide

routes = Routes("pages", in_schema=False)

_SPANS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
_READ = 300
_MOST_GROUPS = 50
_BARS = 24
_WAITING = (JobState.SCHEDULED, JobState.QUEUED, JobState.HELD)
_VERBS = {"retry": (BulkVerb.RETRY, (JobState.FAILED,)), "discard": (BulkVerb.CANCEL, _WAITING)}


class Group:
    """Jobs of one kind that fail or have failed with one error: what is kept of those that ended, and some of them."""

    def __init__(self, kind: str, fingerprint: str) -> None:
        self.kind = kind
        self.fingerprint = fingerprint
        self.id = group_id(kind, fingerprint)
        self.dead: DeadLetterGroup | None = None
        self.jobs: list[Job] = []

    @property
    def is_named(self) -> bool:
        """Whether an address may name it by its fingerprint, which must not quote a secret."""
        return hide(self.fingerprint) == self.fingerprint

    @property
    def latest(self) -> Job | None:
        """The job that failed last, of those that were read."""
        return max(self.jobs, key=_failed_at, default=None)

    @property
    def error_class(self) -> str:
        """What kind of error it is."""
        latest = self.latest
        return (latest.error_class if latest else None) or (self.dead.error_class if self.dead else None) or ""

    @property
    def error(self) -> str:
        """What the last one said, with secrets covered."""
        latest = self.latest
        if latest is not None:
            return latest.error or ""
        return hide((self.dead.error if self.dead else None) or "")

    @property
    def last_at(self) -> datetime:
        """When it was last seen."""
        return max([*map(_failed_at, self.jobs), *([self.dead.last_at] if self.dead else [])])

    @property
    def first_at(self) -> datetime:
        """When it was first seen: ever, of those that failed for good."""
        return min([*map(_failed_at, self.jobs), *([self.dead.first_at] if self.dead else [])])

    @property
    def last_job(self) -> str:
        """The job that failed last."""
        latest = self.latest
        if latest is not None:
            return latest.id
        return self.dead.last_job if self.dead else ""

    @property
    def retrying(self) -> int:
        """How many will be tried again, of those that were read."""
        return sum(not job.is_finished for job in self.jobs)

    @property
    def failed(self) -> JobCount:
        """How many have failed for good and are still there."""
        return self.dead.left if self.dead else JobCount()

    def spark(self, since: datetime, until: datetime) -> Markup:
        """Draw when they failed."""
        counts = [0] * _BARS
        for job in self.jobs:
            share = (_failed_at(job) - since) / (until - since)
            if 0 <= share <= 1:
                counts[min(int(share * _BARS), _BARS - 1)] += 1
        return drawing.spark(counts, f"when {sum(counts)} of {self.kind} failed")


@routes.get("/failures", Permission.LOOK)
async def failures_page(
    request: Request,
    client: Seen,
    within: str = Query("24h", max_length=8),
    kind: str = Query("", max_length=100),
) -> Response:
    """Show what fails now and what has failed lately, the latest first."""
    chosen = within if within in _SPANS else "24h"
    since = datetime.now(UTC) - _SPANS[chosen]
    kinds = (kind.lower(),) if kind else ()
    dead = await client.dead_letters.list(kind=kind or None, since=since, limit=_MOST_GROUPS)
    failed = JobFilter(states=(JobState.FAILED,), kinds=kinds, finished_from=since)
    waiting = JobFilter(states=_WAITING, kinds=kinds, has_error=True)
    ended, live = await client.jobs.search(failed, limit=_READ), await client.jobs.search(waiting, limit=_READ)
    groups = _grouped(dead.groups, [*ended.jobs, *live.jobs])
    return page(
        request,
        "failures.html",
        at="failures",
        groups=groups[:_MOST_GROUPS],
        is_cut=dead.next is not None or len(groups) > _MOST_GROUPS,
        is_part=live.next is not None,
        since=since,
        within=chosen,
        spans=list(_SPANS),
        kind=kind,
        read=_READ,
        operations=await latest_operations(client),
        hide=hide,
    )


@routes.get("/failures/{verb}", Permission.CHANGE_MANY_JOBS)
async def preview_failures_here(
    request: Request,
    verb: str,
    client: Seen,
    kind: str = Query(max_length=100),
    fingerprint: str = Query("", max_length=2_000),
) -> Response:
    """Show to how many jobs of a group something would be done."""
    deed, which = _chosen(client, verb, kind, fingerprint)
    return page(
        request,
        "failures_confirm.html",
        at="failures",
        verb=verb,
        kind=kind,
        fingerprint=fingerprint,
        count=await client.bulk.preview(deed, which),
    )


@routes.post("/failures/{verb}", Permission.CHANGE_MANY_JOBS)
async def end_failures_here(
    request: Request,
    verb: str,
    client: Seen,
    *,
    kind: str = Form(max_length=100),
    fingerprint: str = Form("", max_length=2_000),
    rate: str = Form("", max_length=20),
    reason: str = Form("", max_length=500),
) -> Response:
    """Give the failed jobs of a group a new life, or cancel those that would be tried again."""
    noted(request, verb=verb, kind=kind, fingerprint=fingerprint, rate=rate or None, reason=reason or None)
    deed, which = _chosen(client, verb, kind, fingerprint)
    why = reason or "failures page"
    operation = await client.bulk.start(deed, which, rate=rate or None, reason=why)
    noted(request, operation=operation.id, expected=operation.expected.jobs)
    return turned(request, url(request, "failures"), started(operation))


def _chosen(client: ScopedClient, verb: str, kind: str, fingerprint: str) -> tuple[BulkVerb, JobFilter]:
    if verb not in _VERBS:
        raise not_found("action", verb)
    deed, states = _VERBS[verb]
    return deed, client.jobs.narrowed(JobFilter(states=states, kinds=(kind,), fingerprint=fingerprint))


def _grouped(dead: Sequence[DeadLetterGroup], jobs: Iterable[Job]) -> list[Group]:
    groups: dict[tuple[str, str], Group] = {}
    for known in dead:
        groups.setdefault((known.kind, known.fingerprint), Group(known.kind, known.fingerprint)).dead = known
    for job in jobs:
        mark = job.error_fingerprint or ""
        groups.setdefault((job.kind, mark), Group(job.kind, mark)).jobs.append(job)
    return sorted(groups.values(), key=lambda group: group.last_at, reverse=True)


def _failed_at(job: Job) -> datetime:
    """When a job failed: its end, or (of one that waits for another try) its last claim."""
    return job.finished_at or job.started_at or job.claimed_at or job.enqueued_at
