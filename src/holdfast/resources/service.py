"""A service, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About, about
from holdfast.cadence import Service
from holdfast.resources.examples import MOMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """A service: how it is set, which settings were changed at run time, and what it did under the current leader."""

    name: Annotated[str, About("Name of the service.", "promotion")]
    description: Annotated[str, About("What it does.", "queues scheduled jobs that are due")]
    interval_ms: Annotated[int, about(Service, "interval", 5_000)]
    batch: Annotated[int | None, about(Service, "batch")] = None
    enabled: Annotated[bool, about(Service, "enabled")] = True
    changed: Annotated[list[str], About("The settings that were changed at run time.", ["interval"])] = field(
        default_factory=list
    )
    leader: Annotated[
        str | None, About("The process that reported last; none: no round yet.", "worker-1/4711/k3x9")
    ] = None
    reported_at: Annotated[datetime | None, About("When it reported last.", MOMENT)] = None
    rounds: Annotated[int, About("How many rounds it has made.", 5_400)] = 0
    scanned: Annotated[int, About("How many rows it has looked at.", 120_000)] = 0
    moved: Annotated[int, About("How many rows it has changed.", 118_000)] = 0
    failures: Annotated[int, About("How many rounds have failed.", 0)] = 0
    lag_ms: Annotated[int, About("How late it was at most.", 12)] = 0
    error: Annotated[str | None, About("The error of the last round.", "StoreUnavailable: no answer", quotes=True)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that runs the services."""

    holder: Annotated[str, About("Host, process, and a random word.", "worker-1/4711/k3x9")]
    term: Annotated[int, About("Larger with every new leader.", 3)]
    since: Annotated[datetime, About("Since when it leads.", MOMENT)]
    until: Annotated[datetime, About("Until when it leads, unless it renews its lease.", "2026-11-16T09:30:10Z")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceList:
    """All services, and the process that runs them."""

    services: list[ServiceInfo]
    leaders: list[Leader]
