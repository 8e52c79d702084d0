"""Bulk runs as pages show them: what is said of one that was begun, and the latest that somebody may see."""

from holdfast.server.sight import Sight
from holdfast.stores.bulk import COUNT_CAP, BulkRun

_RUNS = 5


def told(run: BulkRun) -> str:
    """Say that a run has begun."""
    many = f"{COUNT_CAP - 1:,}+" if run.expected >= COUNT_CAP else f"{run.expected:,}"
    return f"run {run.id} has begun: {run.verb} {many} jobs"


async def runs_of(sight: Sight) -> list[BulkRun]:
    """Read the latest runs that they may see."""
    return [run for run in await sight.client.bulk_runs(_RUNS * 4) if sees_run(sight, run)][:_RUNS]


def sees_run(sight: Sight, run: BulkRun) -> bool:
    """Whether they may see a run: all its jobs must be of queues of theirs."""
    if sight.principal.queues is None:
        return True
    return bool(run.which.queues) and all(sight.principal.sees(queue) for queue in run.which.queues)
