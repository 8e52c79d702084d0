"""Streams: what happens to one job, in one queue or everywhere, as server-sent events while it happens."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request

from holdfast.server import live
from holdfast.server.api.queues import Name
from holdfast.server.live import Live, LiveResponse
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.server.scoped.client import ScopedClient

routes = Routes("streams")

_EXAMPLE = """id: 3f2a9c51d07e-42
event: job:progress
data: {"type":"job:progress","id":"htcx-2s16-z48b-09","at":"2026-11-16T05:00:00Z","kind":"import","queue":"high",\
"state":"running","run":1,"claim":1,"attempt":1,"data":{"percent":40.0}}

"""
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Until either side leaves: `snapshot` (jobs as in lists), `ping`, `reset`, and each `Event`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}
_LONGEST = 2_000

JobId = Annotated[str, Path(max_length=64, examples=["htcx-2s16-z48b-09"], description="The id of a job.")]
Queues = Annotated[
    str, Query(max_length=_LONGEST, examples=["high,default"], description="Names of queues, with commas.")
]
_Types = Annotated[
    str, Query(max_length=_LONGEST, examples=["job:completed,job:failed"], description="Types of events, with commas.")
]
_Snapshot = Annotated[bool, Query(description="Whether a picture of the jobs comes first, and after each `reset`.")]
_LastEventId = Annotated[
    str | None, Header(max_length=_LONGEST, description="The id of the last event seen, to go on behind it.")
]


@dataclass(frozen=True)
class Wanted:
    """What every stream can be asked for."""

    types: _Types = ""
    snapshot: _Snapshot = True
    last_event_id: _LastEventId = None


AsWanted = Annotated[Wanted, Depends()]


@routes.get("/stream", Permission.LOOK, summary="Follow everything", response_class=LiveResponse, responses=_ANSWER)
async def follow_all(request: Request, client: Seen, wanted: AsWanted, queues: Queues = "") -> LiveResponse:
    """Follow what happens in all queues that the asker may see, or in some of them."""
    return _stream(request, client, wanted, _listed(queues))


@routes.get(
    "/queues/{name}/stream", Permission.LOOK, summary="Follow a queue", response_class=LiveResponse, responses=_ANSWER
)
async def follow_queue(request: Request, name: Name, client: Seen, wanted: AsWanted) -> LiveResponse:
    """Follow what happens in one queue."""
    client.queues.require(name)  # guard: scope-queue-stream
    return _stream(request, client, wanted, [name])


@routes.get(
    "/jobs/{job}/stream", Permission.LOOK, summary="Follow a job", response_class=LiveResponse, responses=_ANSWER
)
async def follow_job(request: Request, job: JobId, client: Seen, wanted: AsWanted) -> LiveResponse:
    """Follow one job; after its end too, since it may be retried."""
    return _stream(request, client, wanted, (), job=(await client.jobs.get(job)).id)


def _stream(
    request: Request, client: ScopedClient, wanted: Wanted, queues: Iterable[str], *, job: str | None = None
) -> LiveResponse:
    """Stream what the asker may see of it, for as long as they may."""
    live.require_own_page(request)  # guard: stream-origin
    principal, streams = client.principal, _live(request)

    async def check() -> bool:
        return await streams.still_holds(request, principal)  # guard: stream-revoked, without: return True

    stream = client.stream(
        queues=queues,
        job=job,
        types=_listed(wanted.types),
        snapshot=wanted.snapshot,
        last_event_id=wanted.last_event_id,
        ping_s=live.PING_S,
        check=check,
    )
    return LiveResponse(streams, principal, stream)


def _live(request: Request) -> Live:
    found: Live = request.app.state.live
    return found


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
