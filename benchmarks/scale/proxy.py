"""A database that is a millisecond away in each direction, beside the same one at hand."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.contestants import ledger as ledgers
from benchmarks.scale import children
from benchmarks.scale.delay import delayed
from benchmarks.scale.draining import drain, enqueue, new_ledger
from benchmarks.scale.latency import percentile, ranged
from benchmarks.scale.once import WrongRun, require_empty, require_once
from benchmarks.scale.place import Place, connected, execute, fetch, postgres_place
from benchmarks.scale.report import Cell, Report, Table
from benchmarks.scale.sizes import Sizes

_TRIPS = 200
_MOST_S = 60.0
_LEAD_IN = 50  # jobs that find both sides still warming up
_PER_WAY = {
    "one": "enqueue one by one, jobs/s",
    "many": "enqueue by 64 at once, jobs/s",
    "bulk": "enqueue in bulk, jobs/s",
}
_TRIP, _DRAIN = "round trip, ms", "drain by one process, jobs/s"
_PICKUP_50, _PICKUP_95 = "pickup p50, ms", "pickup p95, ms"

Values = dict[str, list[float]]


def run(dsn: str, _folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Take turns between the ways to the server."""
    with ExitStack() as stack:
        ways = {"direct": dsn}
        for delay_ms in sizes.delays_ms:
            ways[f"proxy, {delay_ms:g} ms each way"] = stack.enter_context(delayed(dsn, delay_ms))
        found: dict[str, Values] = {way: {} for way in ways}
        for _ in range(sizes.rounds):
            for way, url in ways.items():
                with postgres_place(dsn) as place:
                    for name, value in _round(place.seen_from(url), sizes):
                        found[way].setdefault(name, []).append(value)
    yield _report(found, sizes)


def _round(place: Place, sizes: Sizes) -> Iterator[tuple[str, float]]:
    yield _TRIP, asyncio.run(_round_trip(place))
    yield _PER_WAY["one"], _enqueued(place, "one", sizes.one_jobs)
    yield _PER_WAY["many"], _enqueued(place, "many", sizes.many_jobs)
    yield _PER_WAY["bulk"], sizes.drain_jobs / enqueue(place, sizes.drain_jobs)
    yield _DRAIN, drain(place, sizes.drain_jobs, sizes.concurrency).rate
    waits = _pickups(place, sizes)
    yield _PICKUP_50, median(waits)
    yield _PICKUP_95, percentile(waits, 95)


def _enqueued(place: Place, way: str, jobs: int) -> float:
    """Enqueue, see that all are there, and remove them; jobs per second."""
    seconds = enqueue(place, jobs, way)
    ((stored,),) = asyncio.run(fetch(place, "SELECT count(*) FROM holdfast.jobs WHERE state = 'queued'"))
    if stored != jobs:
        message = f"of {jobs:,} jobs {stored:,} were stored"
        raise WrongRun(message)
    asyncio.run(execute(place, "TRUNCATE holdfast.jobs"))
    return jobs / seconds


async def _round_trip(place: Place) -> float:
    async with connected(place) as connection:
        took: list[float] = []
        for _ in range(_TRIPS):
            began = time.perf_counter()
            await connection.fetchval("SELECT 1")
            took.append((time.perf_counter() - began) * 1_000)
    return median(took)


def _pickups(place: Place, sizes: Sizes) -> list[float]:
    """Feed jobs to a waiting worker at a steady rate; the milliseconds from just before the enqueue to the run."""
    jobs = _LEAD_IN + sizes.feed_jobs
    with new_ledger() as fed, new_ledger() as ran:
        env = place.environment(ran)
        with children.beside("benchmarks.scale.drain", "--concurrency", sizes.concurrency, "--stay", env=env):
            _wait_until(lambda: asyncio.run(_count_workers(place)) > 0)
            options = ["--jobs", jobs, "--rate", sizes.feed_rate, "--called", fed]
            children.run("benchmarks.scale.program", "feed", *options, env=env)
            _wait_until(lambda: ledgers.count(ran) >= jobs)
        require_once(ran, jobs)
        require_empty(place)
        begun = {record.number: record.when for record in ledgers.read(fed)}
        measured = [record for record in ledgers.read(ran) if record.number >= _LEAD_IN]
        return [(record.when - begun[record.number]) * 1_000 for record in measured]


async def _count_workers(place: Place) -> int:
    async with place.opened() as store:
        return len(await store.list_workers())


def _wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _MOST_S
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.02)


def _report(found: dict[str, Values], sizes: Sizes) -> Report:
    names = next(iter(found.values()))
    lines: list[list[Cell]] = [
        [
            name,
            *(ranged(values[name]) if "jobs/s" in name else _milliseconds(values[name]) for values in found.values()),
        ]
        for name in names
    ]
    title = f"Medians of {sizes.rounds} rounds (range); pickup at {sizes.feed_rate:g} jobs/s"
    table = Table(title, ["", *found], lines)
    return Report("proxy", "A database far away", [table], (), (), (), dict(found))


def _milliseconds(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
