"""The page of workers: who is alive, what they run, and who leads."""

from datetime import datetime
from typing import Literal

from fastapi import Path, Request
from starlette.responses import Response

from holdfast.job import Job, JobState
from holdfast.server.pages.clock import store_time
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.stores.cluster import LeaderRow
from holdfast.stores.values import JobFilter, WorkerRow

routes = Routes("pages", in_schema=False)

_READ_JOBS = 500
_MOST_WORKERS = 200
_SHOWN_JOBS = 5


class Shown:
    """A worker as the page shows it."""

    def __init__(self, row: WorkerRow, now: datetime, jobs: list[Job], leads: list[str]) -> None:
        self.row = row
        self.jobs = jobs[:_SHOWN_JOBS]
        self.leads = leads
        self.state: Literal["alive", "leaving", "lease ended", "dead"] = "alive"
        if row.dead_at is not None:
            self.state = "dead"
        elif row.lease_until < now:
            self.state = "lease ended"
        elif row.drain_at is not None:
            self.state = "leaving"

    @property
    def rank(self) -> tuple[bool, str, int]:
        """Where it stands in the list: the dead come last."""
        return self.row.dead_at is not None, self.row.info.instance, self.row.id


@routes.get("/workers", Permission.LOOK)
async def workers_page(request: Request, sight: Seen) -> Response:
    """Show the processes that run jobs."""
    now = await store_time(sight.store)
    rows = await sight.workers(await sight.client.workers())
    running = await sight.client.list(sight.narrowed(JobFilter(states=(JobState.RUNNING,))), limit=_READ_JOBS)
    jobs: dict[int | None, list[Job]] = {}
    for job in running.jobs:
        jobs.setdefault(job.worker, []).append(job)
    leaders = await sight.client.leaders()
    shown = [
        Shown(
            row,
            now,
            jobs.get(row.id, []),
            [leader.office for leader in leaders if leader.until >= now and _is_of(leader, row)],
        )
        for row in rows
    ]
    return page(
        request,
        "workers.html",
        at="workers",
        workers=sorted(shown, key=lambda one: one.rank)[:_MOST_WORKERS],
        total=len(rows),
        leaders=leaders if sight.principal.queues is None else [],
        alive=[one for one in shown if one.state == "alive"],
        at_work=sum(one.row.running for one in shown if one.state != "dead"),
    )


@routes.post("/workers/{worker}/drain", Permission.DRAIN_WORKERS, whole=True)
async def drain_worker_here(
    request: Request, sight: Seen, who: Who, worker: int = Path(ge=0, le=2**63 - 1)
) -> Response:
    """Let the instance of a worker end what it runs, and leave."""
    drained = await sight.client.drain_worker(worker, actor=who.name)
    if not drained:
        raise not_found("worker", worker)
    noted(request, instance=drained[0].info.instance)
    return turned(request, url(request, "workers"), f"{drained[0].info.host} leaves once its jobs have ended")


def _is_of(leader: LeaderRow, row: WorkerRow) -> bool:
    """Whether a leader is this very process: leaders are named by host, process and a random word."""
    return leader.holder.startswith(f"{row.info.host}/{row.info.pid}/")
