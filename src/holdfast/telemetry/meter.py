"""Counting what one process does, so that it can be shown, or sent on to the process that shows it.

Sums only grow. What was sent is taken out first: whoever adds it up has everything once, also when a process that
counted is gone.
"""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

Series = tuple[str, ...]
"""The name of a metric and the values of its labels."""

Gauge = tuple[Series, float]
"""What something is at the moment."""

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0),
)
"""The upper bounds of the buckets of every histogram; one more holds all above."""

_MOST_SENT = 200  # series in one message, which so stays small enough for the pipe to take it at once


class Counts(msgspec.Struct, array_like=True):
    """What was counted since the last time; of a histogram the buckets that are not empty, and the sum."""

    counters: list[tuple[Series, float]]
    timings: list[tuple[Series, dict[int, int], float]]


class Timings:
    """One histogram of durations."""

    __slots__ = ("buckets", "total_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0


class Meter:
    """The sums of one process."""

    def __init__(self) -> None:
        self.counters: dict[Series, float] = {}
        self.timings: dict[Series, Timings] = {}

    def count(self, series: Series, by: float = 1.0) -> None:
        """Add to a counter."""
        self.counters[series] = self.counters.get(series, 0.0) + by

    def time(self, series: Series, seconds: float) -> None:
        """Add a duration to a histogram."""
        timings = self.timings.get(series)
        if timings is None:
            timings = self.timings[series] = Timings()
        timings.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        timings.total_s += seconds

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not (self.counters or self.timings)

    def take(self) -> Counts:
        """Take out what was counted, as much of it as fits one message."""
        counters = [(series, self.counters.pop(series)) for series in list(self.counters)[:_MOST_SENT]]
        timings = [(series, self.timings.pop(series)) for series in list(self.timings)[:_MOST_SENT]]
        return Counts(counters, [(series, _sparse(found.buckets), found.total_s) for series, found in timings])

    def add(self, counts: Counts) -> None:
        """Add what another process has counted."""
        for series, by in counts.counters:
            self.count(series, by)
        for series, buckets, total_s in counts.timings:
            timings = self.timings.setdefault(series, Timings())
            for number, times in buckets.items():
                timings.buckets[number] += times
            timings.total_s += total_s


def _sparse(buckets: list[int]) -> dict[int, int]:
    return {number: times for number, times in enumerate(buckets) if times}


def summed(gauges: Iterable[Gauge], least: frozenset[str]) -> list[Gauge]:
    """Join the gauges of several processes: their sum, or for those named the least of them."""
    found: dict[Series, float] = {}
    for series, value in gauges:
        if series in found:
            value = min(found[series], value) if series[0] in least else found[series] + value  # noqa: PLW2901 - one number each
        found[series] = value
    return list(found.items())
