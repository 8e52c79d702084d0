"""What phases and progress cost beside plain jobs, and what events cost while nobody watches.

A job of three phases makes four durable writes, as four plain jobs do: both are drained in turn, with the same number
at once. And the plain drain is made as it is, and with the look for watchers taken out of the schema.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.contestants.contestant import LEDGER
from benchmarks.scale import children
from benchmarks.scale.draining import drain, enqueue, new_ledger
from benchmarks.scale.once import WrongRun, require_empty, require_once
from benchmarks.scale.place import Place, execute, fetch, postgres_place, store_place
from benchmarks.scale.program import make_staged
from benchmarks.scale.report import Cell, Figure, Report, Table
from benchmarks.scale.sizes import Sizes

PLAIN_PER_STAGED = 4
MOST_COST = 1.5
MOST_WAL = 1.01
TIE = 1.5

_UNWATCHED = """
CREATE OR REPLACE FUNCTION holdfast.is_watched() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT false $$
"""


@dataclass(frozen=True)
class Drain:
    """How long one drain took, and what it cost the worker."""

    seconds: float
    cpu_s: float


def run(dsn: str, folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Drain in rounds, each way once per round."""
    yield _staged(dsn, folder, sizes)
    if "postgres" in sizes.stores:
        yield _unwatched(dsn, sizes)


# ---- phases --------------------------------------------------------------------------------------------------------


def _staged(dsn: str, folder: Path, sizes: Sizes) -> Report:
    jobs, rows, figures = sizes.staged_jobs, [], []
    for store in sizes.stores:
        staged: list[Drain] = []
        plain: list[Drain] = []
        for _ in range(sizes.rounds):
            with store_place(store, dsn, folder) as place:
                staged.append(_drain_staged(place, jobs, sizes.staged_at_once))
            with store_place(store, dsn, folder) as place:
                enqueue(place, jobs * PLAIN_PER_STAGED)
                plain.append(_drained(place, jobs * PLAIN_PER_STAGED, sizes.staged_at_once))
        costs = [one.seconds / four.seconds for one, four in zip(staged, plain, strict=True)]
        rows.append(_row(store, f"{jobs:,} of three phases", staged))
        rows.append(_row(store, f"{jobs * PLAIN_PER_STAGED:,} plain", plain))
        text = f"{store}: a job of three phases and ten reports to four plain jobs, {sizes.staged_at_once} at once"
        figures.append(Figure(f"{text} ({min(costs):.2f}-{max(costs):.2f})", median(costs), MOST_COST, at_least=False))
    columns = ["store", "jobs", "seconds (range)", "CPU seconds of the worker"]
    return Report("staged", "Phases beside plain jobs", [Table(f"{sizes.rounds} rounds", columns, rows)], figures)


def _row(store: str, jobs: str, drains: Sequence[Drain]) -> list[Cell]:
    seconds = [one.seconds for one in drains]
    shown = f"{median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"
    return [store, jobs, shown, median(one.cpu_s for one in drains)]


def _drain_staged(place: Place, jobs: int, at_once: int) -> Drain:
    asyncio.run(_enqueue_staged(place, jobs))
    return _drained(place, jobs, at_once)


async def _enqueue_staged(place: Place, jobs: int) -> None:
    with new_ledger() as ledger:
        os.environ[LEDGER] = str(ledger)
        app = place.app()
        staged = make_staged(app)
    async with app:
        await app.enqueue_many(staged(number) for number in range(jobs))


def _drained(place: Place, jobs: int, at_once: int) -> Drain:
    with new_ledger() as ledger:
        env = place.environment(ledger)
        answer = children.run("benchmarks.scale.drain", "--concurrency", at_once, env=env)
        require_once(ledger, jobs)
    require_empty(place)
    return Drain(answer["seconds"], answer["cpu_s"])


# ---- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unwatched:
    """How fast one drain was, and what it wrote to the log of the database."""

    rate: float
    wal_bytes: float  # per 1,000 jobs


def _unwatched(dsn: str, sizes: Sizes) -> Report:
    found: dict[str, list[Unwatched]] = {"as it is, nobody watches": [], "without the look for watchers": []}
    for _ in range(sizes.rounds):
        for way, drains in found.items():
            with postgres_place(dsn) as place:
                if way.startswith("without"):
                    asyncio.run(execute(place, _UNWATCHED))
                drains.append(_measured(place, sizes))
    as_is, without = found.values()
    wal = median(one.wal_bytes for one in as_is) / median(one.wal_bytes for one in without)
    rate = median(one.rate for one in without) / median(one.rate for one in as_is)
    figures = [
        Figure("postgres: bytes of the write-ahead log, as it is to without the look", wal, MOST_WAL, at_least=False),
        Figure("postgres: drain without the look to as it is", rate, TIE, at_least=False),
    ]
    rows: list[list[Cell]] = [
        [way, median(one.rate for one in drains), median(one.wal_bytes for one in drains)]
        for way, drains in found.items()
    ]
    table = Table(f"{sizes.watched_jobs:,} jobs, {sizes.rounds} rounds", ["way", "jobs/s", "WAL bytes per 1,000"], rows)
    return Report("unwatched", "Events while nobody watches", [table], figures)


def _measured(place: Place, sizes: Sizes) -> Unwatched:
    enqueue(place, sizes.watched_jobs)
    asyncio.run(execute(place, "CHECKPOINT"))  # or pages that are written for the first time since the last one count
    before = _wal(place)
    drained = drain(place, sizes.watched_jobs, sizes.concurrency)
    written = _wal(place) - before
    if asyncio.run(fetch(place, "SELECT FROM holdfast.events LIMIT 1")):
        message = "there are events although nobody watched"
        raise WrongRun(message)
    return Unwatched(drained.rate, written * 1_000 / sizes.watched_jobs)


def _wal(place: Place) -> int:
    return int(asyncio.run(fetch(place, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))[0][0])
