"""Counted outcomes and mergeable histograms of wait and run time, written with finish batches."""

from bisect import bisect_right
from datetime import datetime

import msgspec

from holdfast.job import JobState

# Bucket n holds durations below 1 ms x 2^(n/2): two buckets per doubling, 42 buckets up to about 25 minutes,
# then one for all above. Counts of the same bucket add up, which stored percentiles never do.
BUCKETS = 44


def bucket(duration_ms: float) -> int:
    """Find the bucket of a duration."""
    return bisect_right(_BOUNDS_MS, duration_ms)


def upper_bound_ms(number: int) -> float:
    """Return the duration below which a bucket lies."""
    return float(2 ** (number / 2))


_BOUNDS_MS = tuple(upper_bound_ms(number) for number in range(BUCKETS - 1))


class Rollup(msgspec.Struct, frozen=True):
    """What happened to the jobs of one kind within one minute, as far as one process knows."""

    queue: str
    kind: str
    state: JobState
    jobs: int
    wait: dict[int, int]
    run: dict[int, int]


class SeriesPoint(msgspec.Struct, frozen=True):
    """How many jobs of one queue ended in one state within one step of time."""

    at: datetime
    queue: str
    state: JobState
    jobs: int


def percentile(histogram: dict[int, int], share: float) -> float | None:
    """Return the upper bound of the bucket in which the given share of all counts is reached."""
    number = _reached(histogram, share)
    return None if number is None else upper_bound_ms(number)


def lower_percentile(histogram: dict[int, int], share: float) -> float | None:
    """Return the lower bound of that bucket: the percentile itself is at least so long."""
    number = _reached(histogram, share)
    if number is None:
        return None
    return upper_bound_ms(number - 1) if number else 0.0


def _reached(histogram: dict[int, int], share: float) -> int | None:
    total = sum(histogram.values())
    reached = 0
    for number in sorted(histogram):
        reached += histogram[number]
        if total and reached >= share * total:
            return number
    return None
