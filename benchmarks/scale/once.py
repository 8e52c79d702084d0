"""The check behind every figure: each job ran exactly once, and the store shows nothing open."""

import asyncio
from pathlib import Path

from benchmarks.audit import problems_of
from benchmarks.contestants.ledger import read
from benchmarks.scale.place import Place


class WrongRun(Exception):
    """Jobs were lost, ran twice or stayed behind: there is no figure."""


def require_once(ledger: Path, jobs: int) -> list[float]:
    """Refuse a run in which some job did not run, or not once; give the times at which they ran, in order."""
    if problems := problems_of(ledger, range(jobs)):
        raise WrongRun("; ".join(problems))
    return sorted(record.when for record in read(ledger))


def require_empty(place: Place) -> None:
    """Refuse a store in which jobs are waiting or running."""
    left = asyncio.run(_count(place))
    if left:
        message = f"the store shows {left:,} jobs that are not finished"
        raise WrongRun(message)


async def _count(place: Place) -> int:
    async with place.opened() as store:
        return sum(count.jobs for count in await store.count_jobs())
