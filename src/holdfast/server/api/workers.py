"""Workers: the processes that run jobs."""

from typing import Annotated

from fastapi import Query, Request

from holdfast.server.api.parameters import Number
from holdfast.server.api.worker_shapes import WorkerList, WorkerShape, worker_shape
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted

routes = Routes("workers", "/workers")


@routes.get("", Permission.LOOK, summary="List workers")
async def list_workers(
    sight: Seen,
    dead: Annotated[bool, Query(examples=[False], description="Also those that died.")] = False,  # noqa: FBT002 - a query
) -> WorkerList:
    """Read the processes that run jobs: where they are, what they serve, how much they do."""
    now = (await sight.store.diagnose()).now
    found = await sight.workers(await sight.store.list_workers())
    rows = [row for row in found if dead or row.dead_at is None]
    return WorkerList(workers=[worker_shape(row, now) for row in rows])


@routes.get("/{number}", Permission.LOOK, summary="Read a worker")
async def read_worker(number: Number, sight: Seen) -> WorkerShape:
    """Read one worker."""
    now = (await sight.store.diagnose()).now
    for row in await sight.workers(await sight.store.list_workers()):
        if row.id == int(number):
            return worker_shape(row, now)
    raise not_found("worker", number)


@routes.post("/{number}/drain", Permission.DRAIN_WORKERS, whole=True, summary="Drain a worker")
async def drain_worker(number: Number, sight: Seen, who: Who, request: Request) -> WorkerShape:
    """Let the instance of a worker claim nothing more, end what it runs, and leave."""
    found = await read_worker(number, sight)
    noted(request, instance=found.instance)
    await sight.client.drain_worker(int(number), actor=who.name)
    return await read_worker(number, sight)
