"""What `stats --json` prints."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.job import JobState
from holdfast.stores.answers import SLOW, ActiveJob, OperatorAnswers

_CAPPED = {"backlog": "backlog", "running": "active", "completed": "throughput"}


class KindShape(msgspec.Struct, frozen=True):
    """How many jobs of a kind wait."""

    kind: str
    jobs: int


class ActiveShape(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs; `items` counts those of each set by state."""

    id: str
    public_id: str
    kind: str
    queue: str
    org: str | None
    project: str | None
    phase: str | None
    percent: float | None
    message: str | None
    host: str | None
    since: datetime
    items: dict[str, dict[str, int]]


class JobsShape(msgspec.Struct, frozen=True):
    """How many jobs there are, and the 10,000 of them that run longest."""

    count: int
    jobs: list[ActiveShape]


class ErrorsShape(msgspec.Struct, frozen=True):
    """The jobs that ended in the last hour: how many failed, wholly or in part, of how many."""

    jobs: int
    ended: int
    by_state: dict[JobState, int]


class OrgShape(msgspec.Struct, frozen=True):
    """How many jobs of an organisation completed in the last hour; null has no such tag."""

    org: str | None
    jobs: int


class StatsShape(msgspec.Struct, frozen=True, kw_only=True):
    """`stats --json`; `capped` names what means "this many or more"."""

    at: datetime
    backlog: list[KindShape]
    active: JobsShape
    items: list[ActiveShape]
    errors: ErrorsShape
    throughput: list[OrgShape]
    slow: JobsShape
    capped: list[str]


def stats(found: OperatorAnswers, with_items: Iterable[ActiveJob]) -> StatsShape:
    """Describe the answers."""
    slow = [job for job in found.active if job.since < found.at - SLOW]
    return StatsShape(
        at=found.at,
        backlog=[KindShape(kind, jobs) for kind, jobs in found.backlog.items()],
        active=JobsShape(found.running, [_active(job) for job in found.active]),
        items=[_active(job) for job in with_items],
        errors=ErrorsShape(found.errors, sum(found.ended.values()), found.ended),
        throughput=[OrgShape(org, jobs) for org, jobs in found.completed.items()],
        slow=JobsShape(found.slow, [_active(job) for job in slow]),
        capped=sorted(_CAPPED[question] for question in found.capped),
    )


def _active(job: ActiveJob) -> ActiveShape:
    return ActiveShape(
        id=str(job.id),
        public_id=public_id.encode(job.id),
        kind=job.kind,
        queue=job.queue,
        org=job.org,
        project=job.project,
        phase=job.phase,
        percent=job.percent,
        message=job.message,
        host=job.host,
        since=job.since,
        items=job.items or {},
    )
