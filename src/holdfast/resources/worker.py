"""A worker, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from holdfast.about import About
from holdfast.resources.examples import MOMENT

WorkerState = Literal["alive", "shutting down", "lease ended", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A process that runs jobs: where it is, what it serves, and whether its lease holds."""

    id: Annotated[str, About("Number of the worker, as jobs name it.", "42")]
    host: Annotated[str, About("The machine it runs on.", "worker-1")]
    pid: Annotated[int, About("Its process.", 4711)]
    instance: Annotated[str, About("The processes that were started together share one.", "0d5c9b1e7a60")]
    version: Annotated[str | None, About("The release of Holdfast that it runs.", "0.7.0")] = None
    queues: Annotated[list[str], About("The queues it serves; none means all.", ["high", "default"])] = field(
        default_factory=list
    )
    slots: Annotated[int, About("How many jobs it runs at once.", 10)]
    running: Annotated[int, About("How many jobs it runs now.", 3)] = 0
    state: Annotated[WorkerState, About("Whether it can be trusted to run what it holds.", "alive")]
    registered_at: Annotated[datetime, About("When it started.", MOMENT)]
    seen_at: Annotated[datetime, About("When it renewed its lease last.", MOMENT)]
    lease_until: Annotated[datetime, About("Until when its jobs are its own.", "2026-11-16T09:30:30Z")]
    dead_at: Annotated[datetime | None, About("When it was found to be dead.", MOMENT)] = None
    drain_at: Annotated[datetime | None, About("When its instance was asked to shut down.", MOMENT)] = None
    drain_by: Annotated[str | None, About("Who asked for that.", "ada")] = None
    memory_bytes: Annotated[
        int | None, About("The memory of its process when it was last seen, where it can be measured.", 48_234_496)
    ] = None

    @property
    def is_alive(self) -> bool:
        """Whether its lease holds."""
        return self.state in {"alive", "shutting down"}

    def serves(self, queue: str) -> bool:
        """Whether it is alive and takes jobs of a queue."""
        return self.is_alive and (not self.queues or queue in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerList:
    """The workers of queues that the caller may see."""

    workers: list[WorkerInfo]
