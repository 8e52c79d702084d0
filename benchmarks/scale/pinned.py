"""Draining while another session pins a snapshot, so that nothing that is finished can be cleaned away.

Beside it, under the same pin, the plain way to claim; and without a pin, the same drain.
"""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median

import asyncpg

from benchmarks.scale import children, plain
from benchmarks.scale.blocks import Touched, explain_walk
from benchmarks.scale.draining import drain, enqueue, new_ledger
from benchmarks.scale.expense import Expense, expense
from benchmarks.scale.once import WrongRun, require_once
from benchmarks.scale.place import Place, fetch, postgres_place
from benchmarks.scale.report import Cell, Curves, Figure, Report, Table
from benchmarks.scale.sizes import Sizes
from holdfast.stores.sql import in_schema

LEAST_RATIO = 0.7
_TENTHS = 10
_PLAIN_BATCH = 100

PINNED, FREE, PLAIN = "Holdfast, pinned", "Holdfast, no pin", "plain ORDER BY ... LIMIT, pinned"


@dataclass(frozen=True)
class Tenths:
    """Jobs per second in each tenth of the jobs, and jobs per CPU second of worker and server, where that is known."""

    per_second: list[float]
    per_cpu_second: list[float]
    walk: Touched | None = None  # a claim from the lane's beginning, over all that is gone


def run(dsn: str, _folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Drain in rounds, each way once per round."""
    found: dict[str, list[Tenths]] = {PINNED: [], PLAIN: [], FREE: []}
    for _ in range(sizes.pinned_rounds):
        found[PINNED].append(_drain_by_worker(dsn, sizes, is_pinned=True))
        found[PLAIN].append(_drain_plainly(dsn, sizes.pinned_plain_jobs))
        found[FREE].append(_drain_by_worker(dsn, sizes, is_pinned=False))
    yield _report(found, sizes)


def _drain_by_worker(dsn: str, sizes: Sizes, *, is_pinned: bool) -> Tenths:
    jobs = sizes.pinned_jobs
    with postgres_place(dsn) as place:
        enqueue(place, jobs)
        with _pin(place, "jobs", jobs) if is_pinned else nullcontext():
            with expense(dsn) as spent:
                drain(place, jobs, sizes.concurrency)
            walk = asyncio.run(explain_walk(place, sizes.concurrency))
        sql = "SELECT extract(epoch FROM finished_at)::float8 FROM holdfast.history"
        return replace(tenths([row[0] for row in asyncio.run(fetch(place, sql))], spent), walk=walk)


def _drain_plainly(dsn: str, jobs: int) -> Tenths:
    with postgres_place(dsn) as place, new_ledger() as ledger:
        asyncio.run(plain.prepare(place, jobs))
        with _pin(place, "plain", jobs), expense(dsn) as spent:
            env = place.environment(ledger)
            children.run("benchmarks.scale.plain", "--batch", _PLAIN_BATCH, env=env)
        on_the_wall = time.time() - time.monotonic()
        return tenths([at + on_the_wall for at in require_once(ledger, jobs)], spent)


@contextmanager
def _pin(place: Place, table: str, jobs: int) -> Iterator[None]:
    """Hold a snapshot in a session that does nothing, and see the same rows in it at the end."""
    count = in_schema(f"SELECT count(*) FROM holdfast.{table} WHERE state = 'queued'", place.schema)
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(place.url))
        try:
            runner.run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ"))
            before = runner.run(connection.fetchval(count))
            yield
            after = runner.run(connection.fetchval(count))
            if (before, after) != (jobs, jobs):
                message = f"the pinned snapshot saw {before:,} jobs and then {after:,}, expected {jobs:,}"
                raise WrongRun(message)
        finally:
            runner.run(connection.close())


def tenths(times: Sequence[float], spent: Expense) -> Tenths:
    """Cut jobs into tenths by the times of their ends.

    Jobs that ended in one call have one time; they count as done evenly since the call before. What ended in the very
    first call is left out, because nobody knows since when.
    """
    (began, _), *later = sorted(Counter(times).items())
    marks = [(0.0, began)]
    for at, jobs in later:
        marks.append((marks[-1][0] + jobs, at))
    size = marks[-1][0] / _TENTHS
    edges = [_reached(marks, size * number) for number in range(_TENTHS + 1)]
    costs = [cost for edge in edges if (cost := spent.until(edge)) is not None]
    per_second, per_cpu_second = (
        [size / max(end - begin, 1e-9) for begin, end in pairwise(passed)] for passed in (edges, costs)
    )
    return Tenths(per_second, per_cpu_second)


def _reached(marks: Sequence[tuple[float, float]], jobs: float) -> float:
    """Tell when so many jobs were done."""
    place = min(bisect_left(marks, (jobs, -inf)), len(marks) - 1)
    if place == 0:
        return marks[0][1]
    (before, began), (after, ended) = marks[place - 1], marks[place]
    return began + (ended - began) * (jobs - before) / (after - before)


def _report(found: dict[str, list[Tenths]], sizes: Sizes) -> Report:
    by_time = {way: [one.per_second for one in rounds] for way, rounds in found.items()}
    by_cost = {way: [one.per_cpu_second for one in rounds] for way, rounds in found.items()}
    tables = [_table("Jobs per second", by_time, sizes)]
    if all(one for rounds in by_cost.values() for one in rounds):
        tables.append(_table("Jobs per CPU second of worker and server", by_cost, sizes))
    text = f"last tenth to first tenth of {sizes.pinned_jobs:,} under a pinned snapshot"
    figure = Figure(text, median(_ratios(by_time[PINNED])), LEAST_RATIO, at_least=True)
    points = {
        way: [((number + 0.5) * 10, rate) for number, rate in enumerate(_medians(rounds))]
        for way, rounds in by_time.items()
    }
    curves = Curves("pinned", "Draining under a pinned snapshot", "% of the jobs", "jobs per second", points)
    notes = [_note(way, [one.walk for one in rounds if one.walk is not None]) for way, rounds in found.items()]
    return Report(
        "pinned", "A pinned snapshot", tables, [figure], [*filter(None, notes)], curves=[curves], raw=dict(found)
    )


def _note(way: str, walks: list[Touched]) -> str:
    """Say what the look at the lanes' beginnings costs, which a worker makes once a second."""
    if not walks:
        return ""
    took, blocks = median(walk.fastest_ms for walk in walks), median(walk.blocks for walk in walks)
    cost = f"takes {took:.1f} ms and touches {blocks:,.0f} blocks"
    return f"{way}: after the drain a claim from the lanes' beginnings {cost}"


def _table(what: str, found: dict[str, list[list[float]]], sizes: Sizes) -> Table:
    lines: list[list[Cell]] = []
    for way, rounds in found.items():
        jobs = sizes.pinned_plain_jobs if way == PLAIN else sizes.pinned_jobs
        ratios = _ratios(rounds)
        shown = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        lines.append([way, jobs, *(round(rate) for rate in _medians(rounds)), shown])
    columns = ["way", "jobs", *(f"{number}." for number in range(1, _TENTHS + 1)), "last / first (range)"]
    return Table(f"{what} in each tenth, medians of {sizes.pinned_rounds} rounds", columns, lines)


def _medians(rounds: list[list[float]]) -> list[float]:
    return [median(tenth) for tenth in zip(*rounds, strict=True)]


def _ratios(rounds: list[list[float]]) -> list[float]:
    return [rates[-1] / rates[0] for rates in rounds]
