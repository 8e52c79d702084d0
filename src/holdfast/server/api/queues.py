"""Queues: what waits and runs in them, how long, letting them rest, and what holds for them."""

from typing import Annotated

from fastapi import Body, Path, Request

from holdfast import names
from holdfast.client.in_force import CHANGEABLE
from holdfast.job import WAITING
from holdfast.resources.bulk import BulkOperation, BulkVerb
from holdfast.resources.queue import JobCount, PauseRequest, PurgeRequest, QueueInfo, QueueList, SettingRequest
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.stores.values import JobFilter

routes = Routes("queues", "/queues")

_STARTED = 201

Name = Annotated[str, Path(max_length=64, examples=["high"], description="The name of a queue.")]
SettingName = Annotated[
    str, Path(max_length=64, examples=["workers"], description=f"One of {', '.join(CHANGEABLE['queues'])}.")
]


@routes.get("", Permission.LOOK, summary="List queues")
async def list_queues(client: Seen) -> QueueList:
    """Read all queues: how many jobs are in which state, how long they wait, who paused them and why."""
    return QueueList(queues=await client.queues.list())


@routes.get("/{name}", Permission.LOOK, summary="Read a queue")
async def read_queue(name: Name, client: Seen) -> QueueInfo:
    """Read one queue."""
    return await client.queues.get(name)


@routes.post("/{name}/pause", Permission.PAUSE_QUEUES, summary="Pause a queue")
async def pause_queue(
    name: Name, client: Seen, request: Request, asked: Annotated[PauseRequest | None, Body()] = None
) -> QueueInfo:
    """Let no job of a queue start until it is resumed; running jobs go on."""
    reason = None if asked is None else asked.reason
    noted(request, queue=names.name(name, "queue"), reason=reason)
    return await client.queues.pause(name, reason=reason)


@routes.post("/{name}/resume", Permission.PAUSE_QUEUES, summary="Resume a queue")
async def resume_queue(name: Name, client: Seen, request: Request) -> QueueInfo:
    """Let the jobs of a queue start again."""
    noted(request, queue=names.name(name, "queue"))
    return await client.queues.resume(name)


@routes.put("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, summary="Set a setting of a queue")
async def set_queue(name: Name, field: SettingName, asked: SettingRequest, client: Seen, request: Request) -> QueueInfo:
    """Change a setting of a queue for all apps, within five seconds and until it is reset."""
    noted(request, queue=names.name(name, "queue"), value=asked.value, reason=asked.reason)
    return await client.queues.set(name, field, asked.value, reason=asked.reason)


@routes.delete("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, summary="Reset a setting of a queue")
async def reset_queue(name: Name, field: SettingName, client: Seen, request: Request) -> QueueInfo:
    """Let a setting of a queue be again what apps and their configuration say."""
    noted(request, queue=names.name(name, "queue"))
    return await client.queues.reset(name, field)


@routes.get("/{name}/purge", Permission.LOOK, summary="Count what a purge would cancel")
async def preview_purge(name: Name, client: Seen) -> JobCount:
    """Count the jobs of a queue that wait now, at most 10,000 of them."""
    queue = await client.queues.get(name)
    return await client.bulk.preview(BulkVerb.CANCEL, _waiting(queue.name))


@routes.post("/{name}/purge", Permission.PURGE_QUEUES, status_code=_STARTED, summary="Purge a queue")
async def purge_queue(
    name: Name, client: Seen, request: Request, asked: Annotated[PurgeRequest | None, Body()] = None
) -> BulkOperation:
    """Cancel all jobs of a queue that wait, as a bulk operation; running jobs go on."""
    queue, given = await client.queues.get(name), asked or PurgeRequest()
    operation = await client.bulk.start(BulkVerb.CANCEL, _waiting(queue.name), rate=given.rate, reason=given.reason)
    noted(request, queue=queue.name, operation=operation.id, jobs=operation.expected.jobs, reason=given.reason)
    return operation


def _waiting(queue: str) -> JobFilter:
    return JobFilter(queues=(queue,), states=tuple(sorted(WAITING)))
