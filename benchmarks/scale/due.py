"""How soon jobs start that are due, and what it costs to make many of them ready.

Jobs become due evenly over some seconds while a worker with room runs; what counts is the start of the handler minus
the time of the job. And many jobs that are all due are promoted by the store's own verb, and in the same run by one
bare UPDATE of the same rows.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from benchmarks.scale.latency import percentile, spread
from benchmarks.scale.once import WrongRun
from benchmarks.scale.place import Place, execute, store_place
from benchmarks.scale.report import Cell, Figure, Report, Table
from benchmarks.scale.rows import Rows, fill, settle
from benchmarks.scale.sizes import Sizes
from holdfast import Context

MOST_LATE_MS = 50.0
BATCH = 1_000
_LEAD_S = 2.0
_PATIENCE_S = 300.0

_PROMOTE = {
    "postgres": "UPDATE holdfast.jobs SET state = 'queued', position = nextval('holdfast.position_seq')"
    " WHERE state = 'scheduled' AND run_at <= now()",
    "sqlite": "UPDATE holdfast_jobs SET state = 'queued', position = id & 0xffffffff"
    " WHERE state = 'scheduled' AND run_at <= unixepoch() * 1000",
}


def run(dsn: str, folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Measure each store."""
    yield _lateness(dsn, folder, sizes)
    yield _promotion(dsn, folder, sizes)


# ---- how soon ------------------------------------------------------------------------------------------------------


def _lateness(dsn: str, folder: Path, sizes: Sizes) -> Report:
    rows: list[list[Cell]] = []
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    for store in sizes.stores:
        with store_place(store, dsn, folder) as place:
            late = asyncio.run(_started(place, sizes))
        raw[store] = late
        worst = percentile(late, 99)
        rows.append([store, len(late), *(percentile(late, percent) for percent in (50, 95)), worst, spread(late, 99)])
        text = f"{store}: ms from due to start, p99 of {sizes.due_jobs:,} jobs due over {sizes.due_s:g} s"
        figures.append(Figure(text, worst, MOST_LATE_MS, at_least=False))
    columns = ["store", "jobs", "p50 ms", "p95", "p99", "p99 of fifths"]
    table = Table(f"Start minus due time, {sizes.concurrency} at once", columns, rows)
    return Report("due", "Jobs that become due", [table], figures, raw=raw)


async def _started(place: Place, sizes: Sizes) -> list[float]:
    """Let jobs become due while a worker runs; by how many milliseconds each was late, in order of their times."""
    app = place.app()
    late: dict[int, float] = {}
    over, stop = asyncio.Event(), asyncio.Event()

    @app.task
    async def note(ctx: Context, number: int) -> None:
        began = time.time()
        if number in late:
            message = f"job {number} ran twice"
            raise WrongRun(message)
        late[number] = (began - ctx.job.run_at.timestamp()) * 1_000
        if len(late) == sizes.due_jobs:
            over.set()

    async with app:
        first = datetime.now(UTC) + timedelta(seconds=_LEAD_S + sizes.due_jobs / 10_000)  # the enqueue takes a while
        step = timedelta(seconds=sizes.due_s / sizes.due_jobs)
        await app.enqueue_many(
            note.using(run_at=first + number * step).call(number=number) for number in range(sizes.due_jobs)
        )
        if datetime.now(UTC) > first:
            message = "jobs were due before all of them were enqueued"
            raise WrongRun(message)
        worker = asyncio.create_task(app.run_worker(concurrency=sizes.concurrency, stop=stop))
        async with asyncio.timeout(_PATIENCE_S):
            await over.wait()
        stop.set()
        await worker
    return [late[number] for number in range(sizes.due_jobs)]


# ---- at what cost --------------------------------------------------------------------------------------------------


def _promotion(dsn: str, folder: Path, sizes: Sizes) -> Report:
    rows: list[list[Cell]] = []
    notes: list[str] = []
    for store in sizes.stores:
        own: list[float] = []
        bare: list[float] = []
        for _ in range(sizes.rounds):
            with _all_due(store, dsn, folder, sizes.promoted_jobs) as place:
                own.append(asyncio.run(_promote(place, sizes.promoted_jobs)))
            with _all_due(store, dsn, folder, sizes.promoted_jobs) as place:
                bare.append(_update(place))
        for way, took in ((f"promoted, {BATCH:,} at a time", own), ("one bare UPDATE", bare)):
            shown = f"{median(took):.2f} ({min(took):.2f}-{max(took):.2f})"
            rows.append([store, way, shown, sizes.promoted_jobs / median(took)])
        ratios = [one / other for one, other in zip(own, bare, strict=True)]
        ratio = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        notes.append(
            f"{store}: promotion of {sizes.promoted_jobs:,} due jobs takes {ratio} times as long as the UPDATE"
        )
    columns = ["store", "way", "seconds (range)", "jobs/s"]
    return Report("promotion", "Many due jobs", [Table(f"{sizes.rounds} rounds", columns, rows)], notes=notes)


@contextmanager
def _all_due(store: str, dsn: str, folder: Path, jobs: int) -> Iterator[Place]:
    """Give a place in which every job is due and none is ready."""
    with store_place(store, dsn, folder) as place:
        fill(place, Rows(scheduled=jobs))
        if place.is_postgres:
            asyncio.run(execute(place, "UPDATE holdfast.jobs SET run_at = now() - interval '1 minute'"))
        else:
            _change(place, "UPDATE holdfast_jobs SET run_at = (unixepoch() - 60) * 1000")
        settle(place)
        yield place


async def _promote(place: Place, jobs: int) -> float:
    async with place.opened() as store:
        began = time.perf_counter()
        moved = 0
        while (promoted := await store.promote_jobs(BATCH)).jobs:
            moved += promoted.jobs
        took = time.perf_counter() - began
    if moved != jobs:
        message = f"of {jobs:,} due jobs {moved:,} were promoted"
        raise WrongRun(message)
    return took


def _update(place: Place) -> float:
    began = time.perf_counter()
    if place.is_postgres:
        asyncio.run(execute(place, _PROMOTE["postgres"]))
    else:
        _change(place, _PROMOTE["sqlite"])
    return time.perf_counter() - began


def _change(place: Place, statement: str) -> None:
    with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"))) as database:
        database.execute("PRAGMA synchronous = full")
        with database:
            database.execute(statement)
