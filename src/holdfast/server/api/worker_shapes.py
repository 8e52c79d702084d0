"""Workers as the API shows them."""

from datetime import datetime

from pydantic import Field

from holdfast.server.api.shape import Moment, Shape
from holdfast.stores.values import WorkerRow


class WorkerShape(Shape):
    """A process that runs jobs; `state` is alive, lease ended or dead."""

    id: str = Field(examples=["42"])
    host: str = Field(examples=["worker-1"])
    pid: int = Field(examples=[4711])
    instance: str = Field(description="Those started together share one.", examples=["0d5c9b1e7a60"])
    version: str | None = Field(examples=["0.7.0"])
    queues: list[str] = Field(description="Those it serves; none means all.", examples=[["high", "default"]])
    slots: int = Field(description="How many jobs it runs at once.", examples=[10])
    running: int = Field(description="How many it runs now.", examples=[3])
    state: str = Field(examples=["alive"])
    registered_at: Moment = Field(examples=["2026-11-16T08:00:00Z"])
    seen_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    lease_until: Moment = Field(examples=["2026-11-16T09:30:30Z"])
    dead_at: Moment | None = Field(examples=[None])
    drain_at: Moment | None = Field(description="When it was asked to leave.", examples=[None])
    drain_by: str | None = Field(examples=[None])
    memory_bytes: int | None = Field(
        description="What its process had when it was last seen, where it can tell.", examples=[48_234_496]
    )


class WorkerList(Shape):
    """The processes that run jobs in queues that the asker may see."""

    workers: list[WorkerShape]


def state_of(row: WorkerRow, now: datetime) -> str:
    """Say in words whether a worker can be trusted to run what it holds."""
    if row.dead_at is not None:
        return "dead"
    return "alive" if row.lease_until >= now else "lease ended"


def worker_shape(row: WorkerRow, now: datetime) -> WorkerShape:
    """Show a worker."""
    info = row.info
    return WorkerShape(
        id=str(row.id),
        host=info.host,
        pid=info.pid,
        instance=info.instance,
        version=info.version,
        queues=list(info.queues),
        slots=info.concurrency,
        running=row.running,
        state=state_of(row, now),
        registered_at=row.registered_at,
        seen_at=row.renewed_at,
        lease_until=row.lease_until,
        dead_at=row.dead_at,
        drain_at=row.drain_at,
        drain_by=row.drain_by,
        memory_bytes=row.memory_bytes,
    )
