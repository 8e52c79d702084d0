"""A lock that is held, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.request import Request

_NAME_BYTES = 512
_LARGEST_TOKEN = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock that is held: by which process, for which job, since when, and how many wait for it."""

    name: Annotated[str, About("Name of the lock.", "edition:42")]
    token: Annotated[int, About("Its fencing token, larger than that of every earlier holder.", 118)]
    owner: Annotated[str, About("The host and the process that hold it.", "worker-1/4711")]
    worker: Annotated[str | None, About("The worker whose job holds it; null outside of jobs.", "42")] = None
    job: Annotated[str | None, About("The job that holds it; null outside of jobs.", JOB_ID)] = None
    claim: Annotated[int | None, About("The claim of that job.", 1)] = None
    since: Annotated[datetime, About("Since when it is held.", MOMENT)]
    until: Annotated[datetime, About("When it ends unless its holder renews it.", "2026-11-16T09:30:30Z")]
    waiters: Annotated[int, About("How many wait for it.", 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockList:
    """The locks that are held, the oldest 1,000."""

    locks: list[LockInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest(Request):
    """Which lock to take from its holder."""

    name: Annotated[str, About("Name of the lock.", "edition:42")] = field(
        metadata={"min_length": 1, "max_length": _NAME_BYTES}
    )
    token: Annotated[int, About("Its token, as the list shows it: a later holder has another, and keeps it.", 118)] = (
        field(metadata={"ge": 0, "le": _LARGEST_TOKEN})
    )
