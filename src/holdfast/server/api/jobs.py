"""Jobs: finding them, and reading all that is kept of one."""

from typing import Annotated

from fastapi import Path, Query, Request, Response

from holdfast.resources.examples import JOB_ID
from holdfast.resources.job import Job, JobPage, JobSummaryPage
from holdfast.resources.job_parts import AttemptList, ItemPage, LogPage, StateChangeList, Why
from holdfast.resources.queue import JobCount
from holdfast.server.api.choosing import Question, chosen
from holdfast.server.api.parameters import Limit
from holdfast.server.pages.rendering import url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("jobs", "/jobs")

MOST_WHOLE = 100
Id = Annotated[str, Path(max_length=40, examples=[JOB_ID], description="The public id of a job.")]
After = Annotated[
    str | None,
    Query(max_length=200, description="`next` of the page before.", examples=["2026-11-16T09:30:00Z/" + JOB_ID]),
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
    response_model=JobPage | JobSummaryPage,
    responses={200: {"headers": {"Link": {"schema": {"type": "string"}, "description": "rel=next: the next page."}}}},
)
async def list_jobs(  # noqa: PLR0917 - every parameter is one of the address
    request: Request,
    response: Response,
    client: Seen,
    q: Question = None,
    limit: Limit = 50,
    after: After = None,
    whole: Whole = False,  # noqa: FBT002 - a parameter of the address
) -> JobPage | JobSummaryPage:
    """Read one page of the jobs that fit, newest first.

    `q` is the filter language of the dashboard and the command line. Ids, kinds, queues, states, tags, times and error
    fingerprints are found by index; a search in arguments or texts goes back in time and may end early, which
    `searched_to` says.
    """
    page = await client.jobs.search(chosen(q), limit=min(limit, MOST_WHOLE) if whole else limit, after=after)
    if page.next is not None:
        more = url(request, "api", "v1", "jobs", q=q, limit=limit, after=page.next, whole="true" if whole else None)
        response.headers["link"] = f'<{more}>; rel="next"'
    return page if whole else page.summary()


@routes.get("/count", Permission.LOOK, summary="Count jobs")
async def count_jobs(client: Seen, q: Question = None) -> JobCount:
    """Count the jobs that fit, at most 10,001 of them and for a moment; `capped` says that there may be more."""
    return await client.jobs.count(chosen(q))


@routes.get("/{id}", Permission.LOOK, summary="Read a job")
async def read_job(id: Id, client: Seen) -> Job:  # noqa: A002 - the name in the address
    """Read all that is kept of a job: arguments, progress, phases, attempts, result, error, webhooks.

    What its task calls secret is covered. 404 once its retention has ended.
    """
    return await client.jobs.get(id)


@routes.get("/{id}/why", Permission.LOOK, summary="Say why a job does not run")
async def explain_job(id: Id, client: Seen) -> Why:  # noqa: A002 - the name in the address
    """Say why a job stands where it stands: what it waits for, and who keeps it waiting."""
    return await client.jobs.why(id)


@routes.get("/{id}/events", Permission.LOOK, summary="Read what happened to a job")
async def read_job_events(id: Id, client: Seen) -> StateChangeList:  # noqa: A002 - the name in the address
    """Read the changes of a job's state, oldest first, as far as they are kept; the stream has them as they come."""
    return StateChangeList(events=await client.jobs.events(id))


@routes.get("/{id}/logs", Permission.LOOK, summary="Read what a job logged")
async def read_job_logs(id: Id, client: Seen, limit: Limit = 1_000, after: Line = None) -> LogPage:  # noqa: A002 - the name in the address
    """Read the lines that the handler of a job logged, oldest first."""
    start = (-1, -1) if after is None else tuple(map(int, after.split("-")))
    lines = [line for line in await client.jobs.logs(id) if (line.claim, line.line) > start]
    last = lines[limit - 1] if len(lines) > limit else None
    return LogPage(logs=lines[:limit], next=None if last is None else f"{last.claim}-{last.line}")


@routes.get("/{id}/attempts", Permission.LOOK, summary="Read the attempts of a job")
async def read_job_attempts(id: Id, client: Seen) -> AttemptList:  # noqa: A002 - the name in the address
    """Read the finished claims of a job: which worker, when, how it finished, with which traceback."""
    return AttemptList(attempts=(await client.jobs.get(id)).attempts)


@routes.get("/{id}/items", Permission.LOOK, summary="Read the items of a job")
async def read_job_items(
    id: Id,  # noqa: A002 - the name in the address
    client: Seen,
    state: ItemState = None,
    limit: Limit = 100,
    after: Offset = None,
) -> ItemPage:
    """Read the items that a job works through, those that failed first; `state` shows those of one state."""
    items = [item for item in await client.jobs.items(id) if state is None or item.state == state]
    start = 0 if after is None else int(after)
    end = start + limit
    return ItemPage(items=items[start:end], next=str(end) if end < len(items) else None)
