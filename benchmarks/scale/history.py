"""Ten million finished jobs: does draining notice, how fast can they be read, and how fast do they leave."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.scale.draining import Drained, drain, enqueue
from benchmarks.scale.extent import extents
from benchmarks.scale.latency import percentile, ranged
from benchmarks.scale.place import Place, store_place
from benchmarks.scale.reading import NO_ANSWER_MS, time_reads
from benchmarks.scale.report import Cell, Report, Table
from benchmarks.scale.rows import Rows, expire, fill, settle
from benchmarks.scale.sizes import Sizes

_BATCH = 500  # what a sweep of upkeep asks for at once


def run(dsn: str, folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Measure each store."""
    for store in sizes.stores:
        with ExitStack() as stack:
            empty, full = (stack.enter_context(store_place(store, dsn, folder)) for _ in range(2))
            fill(full, Rows(finished=sizes.rows))
            settle(full)
            places = {"no history": empty, f"{sizes.rows:,} finished": full}
            drains = _drains(places, sizes)
            reads = asyncio.run(time_reads(full, sizes.calls))
            tables = [
                _drain_table(store, drains),
                _read_table(store, reads),
                _extent_table(store, full),
                _retention_table(store, full, sizes),
            ]
        raw = {name: [one.rate for one in some] for name, some in drains.items()}
        yield Report(f"history-{store}", f"A large history: {store}", tables, (), (), (), {"drains": raw, "ms": reads})


def _drains(places: dict[str, Place], sizes: Sizes) -> dict[str, list[Drained]]:
    found: dict[str, list[Drained]] = {name: [] for name in places}
    for number in range(sizes.rounds):
        names = list(places) if number % 2 else list(reversed(places))
        for name in names:
            enqueue(places[name], sizes.drain_jobs)
            found[name].append(drain(places[name], sizes.drain_jobs, sizes.concurrency))
    return found


def _drain_table(store: str, drains: dict[str, list[Drained]]) -> Table:
    lines: list[list[Cell]] = []
    base = median(one.rate for one in next(iter(drains.values())))
    for name, some in drains.items():
        rates = [one.rate for one in some]
        cpu = median(one.cpu_s / one.jobs * 1_000 for one in some)
        lines.append([name, some[0].jobs, ranged(rates), median(rates) / base, cpu])
    columns = ["store", "jobs", "jobs/s (range)", "ratio", "worker CPU s per 1,000"]
    return Table(f"Draining on {store}", columns, lines)


def _read_table(store: str, reads: dict[str, list[float]]) -> Table:
    lines: list[list[Cell]] = []
    for name, took in reads.items():
        values = [median(took), percentile(took, 95), max(took)]
        shown = [f"no answer in {NO_ANSWER_MS / 1_000:g} s" if value >= NO_ANSWER_MS else value for value in values]
        lines.append([name, len(took), *shown])
    return Table(f"Reading on {store}", ["call", "calls", "p50 ms", "p95", "max"], lines)


def _extent_table(store: str, place: Place) -> Table:
    return Table(f"On disk: {store}", ["table or index", "MB"], extents(place))


def _retention_table(store: str, place: Place, sizes: Sizes) -> Table:
    expire(place, sizes.expired_rows)
    took, gone = asyncio.run(_retain(place, sizes))
    columns = ["rows expired", "sweeps", "rows gone", "ms per sweep, median", "longest", "rows/s"]
    rate = "the whole week" if place.is_postgres else gone / sum(took) * 1_000
    return Table(
        f"Retention on {store}", columns, [[sizes.expired_rows, len(took), gone, median(took), max(took), rate]]
    )


async def _retain(place: Place, sizes: Sizes) -> tuple[list[float], int]:
    """Sweep as upkeep does; how long each sweep took, in milliseconds, and how many rows are gone."""
    took: list[float] = []
    gone = 0
    async with place.opened() as store:
        for _ in range(sizes.calls):
            began = time.perf_counter()
            kept = await store.keep_history(_BATCH)
            took.append((time.perf_counter() - began) * 1_000)
            gone += sizes.expired_rows if kept.dropped else kept.deleted
            if kept.dropped or not kept.deleted:
                break
    return took, gone
