"""Dead letters: failed jobs in groups of one kind and one error, and what is done with them."""

from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request
from starlette.responses import StreamingResponse

from holdfast import names
from holdfast.errors import InvalidValue
from holdfast.resources.bulk import BulkOperation
from holdfast.resources.dead_letter import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterGroupPage,
    DeadLetterRequest,
    GroupRequest,
)
from holdfast.resources.job import JobSummaryPage
from holdfast.resources.queue import JobCount
from holdfast.resources.request import Instant
from holdfast.server.api.jobs import After as AfterJob
from holdfast.server.api.parameters import NAME, Limit
from holdfast.server.exporting import export_lines
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("dead letters", "/dead-letters")

_STARTED = 201
_LINES = "application/x-ndjson"

Group = Annotated[
    str,
    Path(pattern="^[0-9a-f]{12}$", examples=["3f9a0c71be42"], description="The id of a group, as the list shows it."),
]
Kind = Annotated[str | None, Query(max_length=NAME, examples=["send_mail"], description="Only of this kind.")]
Queue = Annotated[str | None, Query(max_length=NAME, examples=["high"], description="Only of this queue.")]
ErrorClass = Annotated[
    str | None, Query(max_length=200, examples=["ConnectionError"], description="Only with this class of error.")
]
Since = Annotated[Instant | None, Query(examples=["2026-11-16T08:00:00Z"], description="Only what has failed since.")]
OfGroup = Annotated[
    str | None, Query(pattern="^[0-9a-f]{12}$", examples=["3f9a0c71be42"], description="Only of this group.")
]
Empty = Annotated[bool, Query(examples=[False], description="Also groups without a job left.")]
After = Annotated[
    str | None,
    Query(
        max_length=100,
        examples=["2026-11-16T09:30:00.123456+00:00~3f9a0c71be42"],
        description="`next` of the page before.",
    ),
]
Given = Annotated[GroupRequest | None, Body()]
_PLAIN = GroupRequest()


@dataclass(frozen=True)
class Conditions:
    """Which failed jobs are meant."""

    kind: Kind = None
    queue: Queue = None
    error: ErrorClass = None
    since: Since = None


@dataclass(frozen=True)
class GroupQuery(Conditions):
    """Which groups are meant, and where their page begins."""

    empty: Empty = False
    limit: Limit = 100
    after: After = None


@dataclass(frozen=True)
class JobQuery(Conditions):
    """Which failed jobs are meant: of one group, or of all."""

    group: OfGroup = None


OfJobs = Annotated[JobQuery, Depends()]


@routes.get("", Permission.LOOK, summary="List dead letters")
async def list_dead_letters(client: Seen, query: Annotated[GroupQuery, Depends()]) -> DeadLetterGroupPage:
    """Read one page of groups of failed jobs, the latest first."""
    return await client.dead_letters.list(**asdict(query))


@routes.get(
    "/export",
    Permission.EXPORT_DEAD_LETTERS,
    summary="Export dead letters",
    responses={200: {"model": DeadLetter, "content": {_LINES: {}}}},
)
async def export_dead_letters(request: Request, client: Seen, query: OfJobs) -> StreamingResponse:
    """Read all failed jobs that fit, one JSON object a line, with secrets covered.

    Each line is a `DeadLetter`. The answer breaks off if the token or login is revoked.
    """
    which = await client.dead_letters.filter(**asdict(query))
    await client.jobs.list(which, limit=1)  # what cannot be asked for is refused before the answer has begun
    return StreamingResponse(export_lines(request, client, which), media_type=_LINES)


@routes.get("/preview", Permission.LOOK, summary="Count dead letters")
async def preview_dead_letters(client: Seen, query: OfJobs) -> JobCount:
    """Count the failed jobs that a replay or a purge would change now, at most 10,000 of them."""
    return await client.dead_letters.preview(**asdict(query))


@routes.get("/{group}", Permission.LOOK, summary="Read a group")
async def read_dead_letter(group: Group, client: Seen) -> DeadLetterGroup:
    """Read one group."""
    return await client.dead_letters.get(group)


@routes.get("/{group}/jobs", Permission.LOOK, summary="List the jobs of a group")
async def list_group_jobs(group: Group, client: Seen, limit: Limit = 50, after: AfterJob = None) -> JobSummaryPage:
    """Read one page of the failed jobs of a group, newest first."""
    return (await client.jobs.search(await client.dead_letters.filter(group), limit=limit, after=after)).summary()


@routes.post("/replay", Permission.RETRY_JOBS, status_code=_STARTED, summary="Replay dead letters")
async def replay_dead_letters(asked: DeadLetterRequest, client: Seen, request: Request) -> BulkOperation:
    """Start all failed jobs that fit over, as a bulk operation; one job is `POST /jobs/{id}/retry`."""
    _require_condition(client, asked)
    operation = await client.dead_letters.replay(**asked.conditions(), rate=asked.rate, reason=asked.reason)
    return _noted(request, operation)


@routes.post("/purge", Permission.DELETE_JOBS, status_code=_STARTED, summary="Purge dead letters")
async def purge_dead_letters(asked: DeadLetterRequest, client: Seen, request: Request) -> BulkOperation:
    """Delete all failed jobs that fit, as a bulk operation."""
    _require_condition(client, asked)
    operation = await client.dead_letters.purge(**asked.conditions(), rate=asked.rate, reason=asked.reason)
    return _noted(request, operation)


@routes.post("/{group}/replay", Permission.RETRY_JOBS, status_code=_STARTED, summary="Replay a group")
async def replay_group(group: Group, client: Seen, request: Request, asked: Given = None) -> BulkOperation:
    """Start the failed jobs of a group over, as a bulk operation."""
    given = asked or _PLAIN
    return _noted(request, await client.dead_letters.replay(group, rate=given.rate, reason=given.reason))


@routes.post("/{group}/purge", Permission.DELETE_JOBS, status_code=_STARTED, summary="Purge a group")
async def purge_group(group: Group, client: Seen, request: Request, asked: Given = None) -> BulkOperation:
    """Delete the failed jobs of a group, as a bulk operation."""
    given = asked or _PLAIN
    return _noted(request, await client.dead_letters.purge(group, rate=given.rate, reason=given.reason))


def _require_condition(client: ScopedClient, asked: DeadLetterRequest) -> None:
    """Refuse to change all failed jobs at once, and those of a queue that the caller may not see."""
    if asked.queue is not None:
        client.queues.require(names.name(asked.queue, "queue"))
    if all(given is None for given in asked.conditions().values()):
        message = "expected a kind, a queue, an error or since; got none of them, which would be all failed jobs"
        raise InvalidValue(message)


def _noted(request: Request, operation: BulkOperation) -> BulkOperation:
    queues = operation.which.get("queues", ())
    only = queues[0] if len(queues) == 1 else None
    noted(request, queue=only, operation=operation.id, jobs=operation.expected.jobs, reason=operation.reason)
    return operation
