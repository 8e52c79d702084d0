"""The page of workers: who is alive, what they run, and who leads."""

from dataclasses import dataclass

from fastapi import Path, Request
from starlette.responses import Response

from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.resources.service import Leader
from holdfast.resources.worker import WorkerInfo
from holdfast.server.pages.clock import store_time
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.stores.values import JobFilter

routes = Routes("pages", in_schema=False)

_READ_JOBS = 500
_MOST_WORKERS = 200
_SHOWN_JOBS = 5


@dataclass(frozen=True)
class WorkerLine:
    """A worker as the page shows it: with the newest of its jobs, and whether it runs the services."""

    worker: WorkerInfo
    jobs: list[Job]
    is_leader: bool

    @property
    def rank(self) -> tuple[bool, str, int]:
        """Where it stands in the list: dead workers come last."""
        return self.worker.dead_at is not None, self.worker.instance, int(self.worker.id)


@routes.get("/workers", Permission.LOOK)
async def workers_page(request: Request, client: Seen) -> Response:
    """Show the processes that run jobs."""
    now = await store_time(client)
    workers = await client.workers.list(dead=True)
    running = await client.jobs.list(JobFilter(states=(JobState.RUNNING,)), limit=_READ_JOBS)
    jobs: dict[str | None, list[Job]] = {}
    for job in running.jobs:
        jobs.setdefault(job.worker, []).append(job)
    leaders = await client.services.leaders()
    current = [leader for leader in leaders if leader.until >= now]
    lines = [
        WorkerLine(
            worker,
            jobs.get(worker.id, [])[:_SHOWN_JOBS],
            any(_is_of(leader, worker) for leader in current),
        )
        for worker in workers
    ]
    return page(
        request,
        "workers.html",
        at="workers",
        lines=sorted(lines, key=lambda line: line.rank)[:_MOST_WORKERS],
        total=len(workers),
        leaders=leaders if client.principal.queues is None else [],
        alive=sum(worker.is_alive for worker in workers),
        at_work=sum(worker.running for worker in workers if worker.state != "dead"),
    )


@routes.post("/workers/{worker}/drain", Permission.DRAIN_WORKERS, whole=True)
async def drain_worker_here(request: Request, client: Seen, worker: int = Path(ge=0, le=2**63 - 1)) -> Response:
    """Ask the instance of a worker to claim no more jobs, finish its own, and exit."""
    drained = await client.workers.drain(worker)
    if not drained:
        raise not_found("worker", worker)
    noted(request, instance=drained[0].instance)
    return turned(request, url(request, "workers"), f"{drained[0].host} shuts down once its jobs have finished")


def _is_of(leader: Leader, worker: WorkerInfo) -> bool:
    """Whether a leader is this very process: leaders are named by host, process and a random word."""
    return leader.holder.startswith(f"{worker.host}/{worker.pid}/")
