"""Medians and ranges over the rounds, and how they compare with Holdfast's."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.roster import HOLDFAST
from benchmarks.runs import Run

TIE = 1.5
# By measure: the value that is compared, its unit, whether less is better.
COMPARED: Mapping[str, tuple[str, str, bool]] = {
    "one": ("jobs_per_s", "jobs/s", False),
    "many": ("jobs_per_s", "jobs/s", False),
    "bulk": ("jobs_per_s", "jobs/s", False),
    "drain1": ("jobs_per_s", "jobs/s", False),
    "drain2": ("jobs_per_s", "jobs/s", False),
    "pickup": ("p95_ms", "ms, p95", True),
    "lone": ("p95_ms", "ms, p95", True),
    "commit": ("p95_ms", "ms, p95", True),
    "idle": ("client_percent", "% of a core", True),
    "memory": ("resident_mb", "MB", True),
}
TITLES: Mapping[str, str] = {
    "one": "Enqueue one by one",
    "many": "Enqueue by 64 coroutines",
    "bulk": "Enqueue in bulk",
    "drain1": "Drain with one process",
    "drain2": "Drain with two processes",
    "pickup": "Pickup at 100 jobs/s",
    "lone": "Pickup of one job at a time, after enqueue's return",
    "commit": "Bare commit at 20 a second",
    "idle": "Idle worker",
    "memory": "Memory after the drain",
}


class Spread(NamedTuple):
    """One value over the rounds."""

    median: float
    low: float
    high: float


class Line(NamedTuple):
    """What a table says of one contestant."""

    contestant: str
    spreads: Mapping[str, Spread]  # by the name of the value
    ratio: float | None  # its median by Holdfast's
    failed: int  # runs that gave no figure or failed the check
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """Sum up values."""
    return Spread(statistics.median(values), min(values), max(values))


def source_of(measure: str) -> str:
    """Tell from which runs a measure comes: memory is looked at after a drain."""
    return "drain1" if measure == "memory" else measure


def measures_in(runs: Iterable[Run]) -> list[str]:
    """List the measures that there are figures of, in the order of the table."""
    done = {run.measure for run in runs}
    return [measure for measure in COMPARED if source_of(measure) in done]


def good_values(runs: Iterable[Run], store: str, contestant: str, measure: str, value: str) -> dict[int, float]:
    """Collect a value by round, of runs that passed their check."""
    return {
        run.round: run.values[value]
        for run in runs
        if (run.store, run.contestant, run.measure) == (store, contestant, source_of(measure))
        and not run.problems
        and value in run.values
    }


def lines(runs: Sequence[Run], store: str, measure: str) -> list[Line]:
    """Sum up one measure on one store: one line for each contestant, the best one first."""
    value, _, is_less_better = COMPARED[measure]
    here = [run for run in runs if run.store == store and run.measure == source_of(measure)]
    ours = _holdfast(runs, store, measure, value)
    found = [_line(here, name, measure, ours) for name in dict.fromkeys(run.contestant for run in here)]

    def rank(line: Line) -> float:
        if value not in line.spreads:
            return float("inf")
        return line.spreads[value].median if is_less_better else -line.spreads[value].median

    return sorted(found, key=rank)


def _holdfast(runs: Sequence[Run], store: str, measure: str, value: str) -> float | None:
    """Find what to compare with: Holdfast on this store, and on PostgreSQL where that was not measured."""
    for place in (store, "postgres"):
        values = good_values(runs, place, HOLDFAST, measure, value)
        if values:
            return statistics.median(values.values())
    return None


def _line(here: Sequence[Run], contestant: str, measure: str, ours: float | None) -> Line:
    of_it = [run for run in here if run.contestant == contestant]
    good = [run for run in of_it if not run.problems]
    names = dict.fromkeys(name for run in good for name in run.values)
    spreads = {name: spread([run.values[name] for run in good if name in run.values]) for name in names}
    value = COMPARED[measure][0]
    ratio = spreads[value].median / ours if ours and value in spreads else None
    return Line(contestant, spreads, ratio, len(of_it) - len(good), len(of_it))


def is_tie(ratio: float) -> bool:
    """Whether a difference is too small to speak of."""
    return 1 / TIE < ratio < TIE
