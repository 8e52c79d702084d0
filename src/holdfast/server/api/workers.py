"""Workers: the processes that run jobs."""

from typing import Annotated

from fastapi import Path, Query, Request

from holdfast.resources.worker import WorkerInfo, WorkerList
from holdfast.server.api.parameters import Number
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("workers", "/workers")

Name = Annotated[
    str, Path(max_length=64, examples=["17"], description="The number of a worker, or the name of its instance.")
]


@routes.get("", Permission.LOOK, summary="List workers")
async def list_workers(
    client: Seen,
    dead: Annotated[bool, Query(examples=[False], description="Also those that died.")] = False,  # noqa: FBT002 - a query
) -> WorkerList:
    """Read the processes that run jobs: where they are, what they serve, how much they do."""
    return WorkerList(workers=await client.workers.list(dead=dead))


@routes.get("/{number}", Permission.LOOK, summary="Read a worker")
async def read_worker(number: Number, client: Seen) -> WorkerInfo:
    """Read one worker."""
    return await client.workers.get(number)


@routes.post("/{worker}/drain", Permission.DRAIN_WORKERS, whole=True, summary="Drain a worker")
async def drain_worker(worker: Name, client: Seen, request: Request) -> WorkerList:
    """Ask the instance of a worker to claim no more jobs, finish its own, and exit. Answers with its processes."""
    workers = await client.workers.drain(worker)
    noted(request, instance=workers[0].instance if workers else None)
    return WorkerList(workers=workers)
