"""What operators ask first, read from a store."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast import names, public_id
from holdfast.job import JobState
from holdfast.resources.job import ItemSet
from holdfast.resources.queue import JobCount
from holdfast.resources.stats import ActiveJob, ActiveJobs, ErrorCount, KindBacklog, OrgThroughput, Stats
from holdfast.stores.answers import LISTED, SLOW, WITHIN_S, ActiveJobRow, OperatorAnswers
from holdfast.stores.bulk import COUNT_CAP
from holdfast.stores.store import UpkeepStore
from holdfast.stores.values import Count, LaneGauge

_CAPPED = {"backlog": "backlog", "running": "active", "completed": "throughput"}


async def read_stats(
    store: UpkeepStore,
    *,
    project: str | None,
    phase: str | None,
    org_tag: str,
    project_tag: str,
    queues: Sequence[str],
) -> Stats:
    """Read the answers; `project` and `phase` choose among the jobs with items, `queues` among all jobs."""
    found = await store.operator_answers(
        org_tag=names.name(org_tag, "org_tag"),
        project_tag=names.name(project_tag, "project_tag"),
        within_s=WITHIN_S,
        most=LISTED,
        queues=queues,
    )
    with_items = [
        job
        for job in found.active
        if (job.items or phase is not None) and project in (None, job.project) and phase in (None, job.phase)
    ]
    return _stats(found, with_items)


def _stats(found: OperatorAnswers, with_items: Iterable[ActiveJobRow]) -> Stats:
    slow = [job for job in found.active if job.since < found.at - SLOW]
    return Stats(
        at=found.at,
        backlog=[KindBacklog(kind=kind, jobs=jobs) for kind, jobs in found.backlog.items()],
        active=ActiveJobs(count=found.running, jobs=list(map(_active_job, found.active))),
        items=list(map(_active_job, with_items)),
        errors=ErrorCount(jobs=found.errors, finished=sum(found.finished.values()), by_state=found.finished),
        throughput=[OrgThroughput(org=org, jobs=jobs) for org, jobs in found.completed.items()],
        slow=ActiveJobs(count=found.slow, jobs=list(map(_active_job, slow))),
        capped=sorted(_CAPPED[question] for question in found.capped),
    )


def _active_job(row: ActiveJobRow) -> ActiveJob:
    return ActiveJob(
        id=public_id.encode(row.id),
        kind=row.kind,
        queue=row.queue,
        org=row.org,
        project=row.project,
        phase=row.phase,
        percent=row.percent,
        host=row.host,
        since=row.since,
        items={name: ItemSet(total=sum(counts.values()), **counts) for name, counts in (row.items or {}).items()},
    )


def added_up(rows: Iterable[Count | LaneGauge]) -> dict[str, dict[JobState, JobCount]]:
    """Add up the lanes of each queue by state."""
    counts: defaultdict[str, dict[JobState, JobCount]] = defaultdict(dict)
    for row in rows:
        before = counts[row.queue].get(row.state, JobCount())
        jobs = min(row.jobs, COUNT_CAP - 1) if row.capped else row.jobs
        if jobs:
            counts[row.queue][row.state] = JobCount(jobs=before.jobs + jobs, capped=before.capped or row.capped)
    return counts
