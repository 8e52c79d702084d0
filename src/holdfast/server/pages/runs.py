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
    return [run for run in await sight.client.bulk_runs(_RUNS * 4) if sight.sees_run(run)][:_RUNS]
