"""The page of jobs: one box that filters, tabs by state, pages that go by key."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from fastapi import Query, Request
from starlette.responses import RedirectResponse, Response

from holdfast import filtering
from holdfast.client.cursors import read_cursor
from holdfast.client.jobs import meant
from holdfast.errors import InvalidFilter, InvalidValue, JobNotFound
from holdfast.job import JobState
from holdfast.resources.bulk import BulkOperation
from holdfast.resources.job import JobPage
from holdfast.resources.queue import QueueInfo
from holdfast.resources.redaction import redact
from holdfast.server.pages.rendering import page, part_of, url
from holdfast.server.pages.shown import Shown
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import Counted, JobFilter

routes = Routes("pages", in_schema=False)

PAGE = 50
COLUMNS = (
    ("queue", "Queue"),
    ("args", "Arguments"),
    ("tries", "Attempt"),
    ("when", "Enqueued"),
    ("took", "Took"),
    ("actor", "Actor"),
)
_TABS = (
    ("all", ()),
    ("queued", (JobState.QUEUED,)),
    ("running", (JobState.RUNNING,)),
    ("scheduled", (JobState.SCHEDULED,)),
    ("held", (JobState.HELD, JobState.BLOCKED)),
    ("completed", (JobState.COMPLETED,)),
    ("with errors", (JobState.COMPLETED_WITH_ERRORS,)),
    ("failed", (JobState.FAILED,)),
    ("cancelled", (JobState.CANCELLED,)),
)
TERMS = (
    ("kind:send_email", "jobs of a kind, or of several with commas between"),
    ("queue:high", "jobs of a queue"),
    ("state:failed,cancelled", "in a state; also waiting, live and finished"),
    ("tag:customer=17", "with this tag"),
    ("args.to=a@example.org", "with this argument; args.a.b= looks inside"),
    ("error:TimeoutError", "that failed with this error"),
    ("actor:anna", "enqueued by somebody"),
    ("unique:report-17", "with this unique key"),
    ("schedule:nightly", "that a schedule has made"),
    ("parent:htcx-2s16-z48b-09", "that the handler of this job has enqueued"),
    ("origin:htcx-2s16-z48b-09", "that replay this job"),
    ("priority:0", "of a priority, 0 first and 10 last"),
    ("since:1h until:10m", "enqueued within a time; also times such as 2026-11-15T09:00"),
    ("finished-since:1d", "that finished within a time"),
    ('"connection refused"', "words in the kind, the error or the arguments"),
    ("htcx-2s16-z48b-09", "one job, by its id or the end of it"),
)
_WORDS = ("waiting", "live", "finished")
_COUNT_S = 3.0
_AGAIN = "holdfast:counts from:body"  # every few seconds, while the page is live
_TABS_S = 0.1
_QUEUES_S = 10.0
_MOST_KINDS = 300
_OPERATIONS = 5


@dataclass(frozen=True)
class Tab:
    """One tab: the filter with its states, and how many jobs that are, if it was counted."""

    name: str
    query: str
    is_chosen: bool
    count: str = ""


def read_query(text: str) -> filtering.Query:
    """Read what stands in the box."""
    return filtering.parse(text, datetime.now(UTC))


@routes.get("/jobs", Permission.LOOK)
async def jobs_page(
    request: Request,
    client: Seen,
    q: str = Query("", max_length=filtering.LONGEST),
    after: str | None = Query(None, max_length=200),
) -> Response:
    """Show the jobs that a filter chooses, newest first."""
    try:
        asked = read_query(q)
        if after is not None:
            read_cursor(after)  # refuses what is none
    except InvalidFilter as error:
        return _with_mistake(request, q, "\n".join(map(str, error.errors)))
    except InvalidValue as error:
        return _with_mistake(request, q, str(error))
    if (named := await _named(request, client, asked)) is not None:
        return named
    if part_of(request) == "tabs":
        return page(request, "jobs.html", at="jobs", tabs=await _counted_tabs(client, asked), counting=_AGAIN, query=q)
    found = await client.jobs.search(asked.where, limit=PAGE, after=after)
    return page(
        request,
        "jobs.html",
        at="jobs",
        query=asked.text(),
        mistake=None,
        tabs=_tabs(asked),
        counting="" if _is_long(asked.where) else "load",
        rows=[Shown(job) for job in found.jobs],
        found=found,
        next=found.next,
        is_first=after is None,
        columns=COLUMNS,
        operations=await _operations(client),
        colours=await _colours(client),
        terms=TERMS,
        choices=await _choices(client),
        command=f"holdfast jobs list {shlex.quote(asked.text())}" if q else "holdfast jobs list",
    )


async def _named(request: Request, client: ScopedClient, asked: filtering.Query) -> Response | None:
    """Go straight to the one job that was asked for, if it is there."""
    if asked.job is None:
        return None
    try:
        found = await client.jobs.get(asked.job)
    except JobNotFound:
        return None
    return RedirectResponse(url(request, "jobs", found.id), 303)


def _with_mistake(request: Request, q: str, mistake: str) -> Response:
    return page(
        request,
        "jobs.html",
        at="jobs",
        status=422,
        live="",
        query=q,
        mistake=mistake,
        tabs=[],
        counting="",
        rows=[],
        found=JobPage(jobs=[]),
        next=None,
        is_first=True,
        columns=COLUMNS,
        operations=[],
        colours={},
        terms=TERMS,
        choices=[],
        command="holdfast jobs list",
    )


def _tabs(asked: filtering.Query, counts: Sequence[str] = ()) -> list[Tab]:
    rest = tuple(term for term in asked.terms if term.name != "state")
    chosen = frozenset(asked.where.states)
    found = []
    for index, (name, states) in enumerate(_TABS):
        terms = (*rest, filtering.Term("state", states)) if states else rest
        text = filtering.Query(terms, asked.where).text()
        found.append(Tab(name, text, frozenset(states) == chosen, counts[index] if counts else ""))
    return found


def _is_long(where: JobFilter) -> bool:
    """Whether jobs have to be read one by one to know which fit; that is not done for each tab."""
    return bool(where.args or where.words)


async def _counted_tabs(client: ScopedClient, asked: filtering.Query) -> list[Tab]:
    """Count what each tab shows, reading 10,001 entries of an index at most for each; in time for all of them."""
    where = await client.jobs.chosen(asked.where)
    ends_at = time.monotonic() + _TABS_S
    counts = dict.fromkeys(dict(_TABS), "")
    # Those that failed come first: people look for them. Those that completed come last: they are most, and take long.
    for name, states in sorted(_TABS, key=lambda tab: (JobState.COMPLETED in tab[1], JobState.FAILED not in tab[1])):
        counts[name] = await _count(client, where, states, ends_at)
    return _tabs(asked, list(counts.values()))


async def _count(client: ScopedClient, where: JobFilter, states: tuple[JobState, ...], ends_at: float) -> str:
    left_ms = round((ends_at - time.monotonic()) * 1_000)
    if not states or left_ms <= 0:
        return ""
    which = meant(msgspec.structs.replace(where, states=states))
    key = ("count", which)
    counted: Counted = await client.recent(key, _COUNT_S, lambda: client.figures.count(which, left_ms))
    return f"{counted.jobs:,}{'+' if counted.capped else ''}"


async def _operations(client: ScopedClient) -> list[BulkOperation]:
    """Read the bulk operations that are under way, for those who may see all queues."""
    if client.principal.queues is not None:
        return []
    found = await client.recent("operations", 1.0, lambda: client.bulk.list(_OPERATIONS))
    return redact([operation for operation in found if operation.finished_at is None])


async def _choices(client: ScopedClient) -> list[str]:
    """Terms that the box completes: states, queues and kinds that may be seen."""
    queues = [queue.name for queue in await _queues(client)]
    kinds = await client.kinds.list()
    return [
        *(f"state:{word}" for word in (*(state.value for state in JobState), *_WORDS)),
        *(f"queue:{queue}" for queue in queues),
        *(f"kind:{kind.name}" for kind in kinds[:_MOST_KINDS]),
        *(text.partition(":")[0] + ":" for text, _ in TERMS if ":" in text),
        "args.",
    ]


async def _colours(client: ScopedClient) -> dict[str, str | None]:
    return {queue.name: queue.colour for queue in await _queues(client)}


async def _queues(client: ScopedClient) -> list[QueueInfo]:
    """Read the queues that the caller may see, as they were a moment ago."""
    return await client.recent("queue names", _QUEUES_S, client.queues.list)
