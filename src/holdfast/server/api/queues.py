"""Queues: what waits and runs in them, how long, letting them rest, and what holds for them."""

from typing import Annotated

from fastapi import Body, Path, Request

from holdfast import names
from holdfast.client.in_force import CHANGEABLE, policy_path
from holdfast.job import WAITING
from holdfast.server.api.bulk_shapes import BulkShape, PreviewShape, bulk_shape, preview_shape
from holdfast.server.api.queue_shapes import (
    PauseRequest,
    PurgeRequest,
    QueueList,
    QueueSetting,
    QueueShape,
    queue_shape,
)
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.stores.bulk import BulkVerb
from holdfast.stores.values import JobFilter

routes = Routes("queues", "/queues")

_STARTED = 201

Name = Annotated[str, Path(max_length=64, examples=["high"], description="The name of a queue.")]
SettingName = Annotated[
    str, Path(max_length=64, examples=["workers"], description=f"One of {', '.join(CHANGEABLE['queues'])}.")
]


@routes.get("", Permission.LOOK, summary="List queues")
async def list_queues(sight: Seen) -> QueueList:
    """Read all queues: how many jobs are in which state, how long they wait, who paused them and why."""
    families = await sight.client.families()
    gauges = await sight.store.read_gauges()
    return QueueList(
        queues=[queue_shape(family, gauges) for family in families if sight.principal.sees(family.row.name)]
    )


@routes.get("/{name}", Permission.LOOK, summary="Read a queue")
async def read_queue(name: Name, sight: Seen) -> QueueShape:
    """Read one queue."""
    wanted = names.name(name, "queue")
    sight.require_queue(wanted)  # guard: scope-queue-read
    for family in await sight.client.families():
        if family.row.name == wanted:
            return queue_shape(family, await sight.store.read_gauges())
    raise not_found("queue", name)


@routes.post("/{name}/pause", Permission.PAUSE_QUEUES, summary="Pause a queue")
async def pause_queue(
    name: Name, sight: Seen, who: Who, request: Request, asked: Annotated[PauseRequest | None, Body()] = None
) -> QueueShape:
    """Let no job of a queue start until it is resumed; what runs goes on."""
    wanted = names.name(name, "queue")
    sight.require_queue(wanted)  # guard: scope-pause
    reason = None if asked is None else asked.reason
    noted(request, queue=wanted, reason=reason)
    await sight.client.pause(wanted, actor=who.name, reason=reason)
    return await read_queue(wanted, sight)


@routes.post("/{name}/resume", Permission.PAUSE_QUEUES, summary="Resume a queue")
async def resume_queue(name: Name, sight: Seen, request: Request) -> QueueShape:
    """Let jobs of a queue start again."""
    wanted = names.name(name, "queue")
    sight.require_queue(wanted)  # guard: scope-resume
    noted(request, queue=wanted)
    await sight.client.resume(wanted)
    return await read_queue(wanted, sight)


@routes.put("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, summary="Set a setting of a queue")
async def set_queue(name: Name, field: SettingName, asked: QueueSetting, sight: Seen, request: Request) -> QueueShape:
    """Change what holds for a queue, for everybody, within five seconds and until it is reset."""
    found = await read_queue(name, sight)
    noted(request, queue=found.name, value=asked.value, reason=asked.reason)
    path = policy_path("queues", found.name, field)
    await sight.client.set_policy(path, asked.value, actor=sight.principal.name, reason=asked.reason)
    return await read_queue(found.name, sight)


@routes.delete("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, summary="Reset a setting of a queue")
async def reset_queue(name: Name, field: SettingName, sight: Seen, request: Request) -> QueueShape:
    """Let a setting of a queue be again what programs and their configuration say."""
    found = await read_queue(name, sight)
    noted(request, queue=found.name)
    await sight.client.reset_policy(policy_path("queues", found.name, field))
    return await read_queue(found.name, sight)


@routes.get("/{name}/purge", Permission.LOOK, summary="Count what a purge would cancel")
async def preview_purge(name: Name, sight: Seen) -> PreviewShape:
    """Count the jobs of a queue that wait now, at most 10,000 of them."""
    found = await read_queue(name, sight)
    return preview_shape(await sight.client.preview_bulk(BulkVerb.CANCEL, _waiting(found.name)))


@routes.post("/{name}/purge", Permission.PURGE_QUEUES, status_code=_STARTED, summary="Purge a queue")
async def purge_queue(
    name: Name, sight: Seen, who: Who, request: Request, asked: Annotated[PurgeRequest | None, Body()] = None
) -> BulkShape:
    """Cancel all jobs of a queue that wait, as a bulk run; what runs goes on."""
    found = await read_queue(name, sight)
    given = asked or PurgeRequest()
    run = await sight.client.start_bulk(
        BulkVerb.CANCEL, _waiting(found.name), rate=given.rate, actor=who.name, reason=given.reason
    )
    noted(request, queue=found.name, run=run.id, jobs=run.expected, reason=given.reason)
    return bulk_shape(run)


def _waiting(queue: str) -> JobFilter:
    return JobFilter(queues=(queue,), states=tuple(sorted(WAITING)))
