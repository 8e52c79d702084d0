"""Jobs: finding them, and reading all that is kept of one."""

from typing import Annotated

import msgspec
from fastapi import Path, Query, Request, Response

from holdfast.client.covering import Covering
from holdfast.client.cursors import cursor_text
from holdfast.job import LogLine
from holdfast.server.api.choosing import Question, chosen
from holdfast.server.api.job_shapes import (
    ID,
    AttemptList,
    ChangeList,
    ChangeShape,
    ItemList,
    JobPage,
    LineList,
    LineShape,
    WholeJob,
    WholePage,
    WhyShape,
    attempt_shape,
    items_of,
    job_shape,
    whole_job,
)
from holdfast.server.api.parameters import Limit
from holdfast.server.pages.rendering import url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("jobs", "/jobs")

MOST_WHOLE = 100
Id = Annotated[str, Path(max_length=40, examples=[ID], description="The public id of a job.")]
After = Annotated[
    str | None, Query(max_length=200, description="`next` of the page before.", examples=["2026-11-16T09:30:00Z/" + ID])
]
Whole = Annotated[bool, Query(description=f"Answer whole jobs, at most {MOST_WHOLE} a page.")]
ItemState = Annotated[
    str | None,
    Query(
        pattern="^(failed|skipped|in_progress|completed)$", examples=["failed"], description="Only those of this state."
    ),
]
Line = Annotated[
    str | None, Query(pattern=r"^\d{1,15}-\d{1,15}$", description="`next` of the page before.", examples=["1-99"])
]
Offset = Annotated[str | None, Query(pattern=r"^\d{1,9}$", description="`next` of the page before.", examples=["100"])]


@routes.get(
    "",
    Permission.LOOK,
    summary="List jobs",
    response_model=WholePage | JobPage,
    responses={200: {"headers": {"Link": {"schema": {"type": "string"}, "description": "rel=next: the next page."}}}},
)
async def list_jobs(  # noqa: PLR0917 - every parameter is one of the address
    request: Request,
    response: Response,
    sight: Seen,
    q: Question = None,
    limit: Limit = 50,
    after: After = None,
    whole: Whole = False,  # noqa: FBT002 - a parameter of the address
) -> WholePage | JobPage:
    """Read one page of the jobs that fit, newest first.

    `q` is the filter language of the dashboard and the command line. Ids, kinds, queues, states, tags, times and error
    fingerprints are found by index; a search in arguments or texts goes back in time and may end early, which
    `searched_to` says.
    """
    found = await sight.search(chosen(q), limit=min(limit, MOST_WHOLE) if whole else limit, after=after)
    following = None if found.next is None else cursor_text(found.next)
    if following is not None:
        more = url(request, "api", "v1", "jobs", q=q, limit=limit, after=following, whole="true" if whole else None)
        response.headers["link"] = f'<{more}>; rel="next"'
    back_to = None if found.is_whole else found.searched_to
    if whole:
        return WholePage(jobs=[whole_job(job) for job in found.jobs], next=following, searched_to=back_to)
    return JobPage(jobs=[job_shape(job) for job in found.jobs], next=following, searched_to=back_to)


@routes.get("/{id}", Permission.LOOK, summary="Read a job")
async def read_job(id: Id, sight: Seen) -> WholeJob:  # noqa: A002 - the name in the address
    """Read all that is kept of a job: arguments, progress, phases, attempts, result, error, webhooks.

    What its task calls secret is covered. 404 once its retention has ended.
    """
    return whole_job(await sight.job(id))


@routes.get("/{id}/why", Permission.LOOK, summary="Say why a job does not run")
async def explain_job(id: Id, sight: Seen) -> WhyShape:  # noqa: A002 - the name in the address
    """Say why a job stands where it stands: what it waits for, and who keeps it waiting."""
    job = await sight.job(id)
    why = await sight.why(job)
    covering = Covering(job)
    return WhyShape(
        reason=why.reason.value, sentence=covering.value(why.sentence), details=covering.value(dict(why.details))
    )


@routes.get("/{id}/events", Permission.LOOK, summary="Read what happened to a job")
async def read_job_events(id: Id, sight: Seen) -> ChangeList:  # noqa: A002 - the name in the address
    """Read the changes of a job's state, oldest first, as far as they are kept; the stream tells them as they come."""
    job = await sight.job(id)
    return ChangeList(events=[ChangeShape.model_validate(change) for change in job.changes])


@routes.get("/{id}/logs", Permission.LOOK, summary="Read what a job logged")
async def read_job_logs(id: Id, sight: Seen, limit: Limit = 1_000, after: Line = None) -> LineList:  # noqa: A002 - the name in the address
    """Read the lines that the handler of a job logged, oldest first."""
    job = await sight.job(id)
    claim, line = (-1, -1) if after is None else map(int, after.split("-"))
    lines = [one for one in job.logs if (one.claim, one.line) > (claim, line)]
    has_more = len(lines) > limit
    last, covering = lines[limit - 1] if has_more else None, Covering(job)
    return LineList(
        logs=[_line(one, covering) for one in lines[:limit]],
        next=None if last is None else f"{last.claim}-{last.line}",
    )


@routes.get("/{id}/attempts", Permission.LOOK, summary="Read the attempts of a job")
async def read_job_attempts(id: Id, sight: Seen) -> AttemptList:  # noqa: A002 - the name in the address
    """Read the ended claims of a job: which worker, when, how it ended, with which traceback."""
    job = await sight.job(id)
    return AttemptList(attempts=[attempt_shape(attempt) for attempt in job.attempts])


@routes.get("/{id}/items", Permission.LOOK, summary="Read the items of a job")
async def read_job_items(
    id: Id,  # noqa: A002 - the name in the address
    sight: Seen,
    state: ItemState = None,
    limit: Limit = 100,
    after: Offset = None,
) -> ItemList:
    """Read the items that a job works through, those that failed first; `state` shows those of one state."""
    items = [item for item in items_of(await sight.job(id)) if state is None or item.state == state]
    start = 0 if after is None else int(after)
    end = start + limit
    return ItemList(items=items[start:end], next=str(end) if end < len(items) else None)


def _line(line: LogLine, covering: Covering) -> LineShape:
    return LineShape.model_validate(msgspec.structs.replace(line, text=covering.text(line.text)))
