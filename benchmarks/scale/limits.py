"""What a limit costs: jobs that do nothing are drained with and without one, in turn, on each store.

A limit of ten times the slots never holds a job back, so that only its price is left. What small limits let through is
shown beside it, and is no figure to be reached: they are there to slow things down.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.scale.once import WrongRun
from benchmarks.scale.place import store_place
from benchmarks.scale.report import Cell, Figure, Report, Table
from benchmarks.scale.sizes import Sizes
from holdfast import Holdfast, Limit

LEAST_SHARE = 0.8
SLOTS = 20
LIMITS = (None, 10 * SLOTS, SLOTS, 3)


def run(dsn: str, folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Measure each store."""
    rows: list[list[Cell]] = []
    figures: list[Figure] = []
    for store in sizes.stores:
        rates: dict[int | None, list[float]] = {limit: [] for limit in LIMITS}
        for _ in range(sizes.rounds):
            for limit in LIMITS:
                with store_place(store, dsn, folder) as place:
                    rates[limit].append(asyncio.run(_drained(place.app(limits=_bound(limit)), sizes.limited_jobs)))
        for limit in LIMITS:
            ratios = [one / bare for one, bare in zip(rates[limit], rates[None], strict=True)]
            shown = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            rows.append([store, "none" if limit is None else f"{limit} at once", median(rates[limit]), shown])
            if limit == 10 * SLOTS:
                text = f"{store}: rate under a limit of 10 times the slots, of the rate without it"
                figures.append(Figure(text, median(ratios), LEAST_SHARE, at_least=True))
    columns = ["store", "limit", "jobs/s", "of the rate without (range)"]
    table = Table(f"{sizes.limited_jobs:,} jobs that do nothing, {SLOTS} slots", columns, rows)
    yield Report("limits", "The cost of a limit", [table], figures)


def _bound(limit: int | None) -> list[Limit]:
    return [] if limit is None else [Limit(name="bound", queue="default", concurrency=limit)]


async def _drained(app: Holdfast, jobs: int) -> float:
    """Drain jobs under the limit that the app publishes; how many a second."""
    ran = 0

    @app.task
    async def nothing() -> None:
        nonlocal ran
        ran += 1

    async with app:
        await app.enqueue_many(nothing.call() for _ in range(jobs))
        began = time.perf_counter()
        await app.run_worker(until="empty", concurrency=SLOTS)
        took = time.perf_counter() - began
    if ran != jobs:
        message = f"of {jobs:,} jobs {ran:,} ran"
        raise WrongRun(message)
    return jobs / took
