"""What many timings of one call say."""

import math
from collections.abc import Sequence
from statistics import median

PARTS = 5


def percentile(samples: Sequence[float], percent: float) -> float:
    """Give the smallest sample that so many percent do not exceed."""
    ordered = sorted(samples)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


def parts(samples: Sequence[float]) -> list[Sequence[float]]:
    """Cut samples into consecutive fifths, so that a bad minute of the machine is seen as such."""
    size = max(len(samples) // PARTS, 1)
    return [samples[start : start + size] for start in range(0, size * min(PARTS, len(samples)), size)]


def spread(samples: Sequence[float], percent: float) -> str:
    """Give the lowest and the highest percentile among the fifths."""
    found = [percentile(part, percent) for part in parts(samples)]
    return f"{min(found):.2f}-{max(found):.2f}"


def ranged(values: Sequence[float]) -> str:
    """Give the median of a few rounds, and their range."""
    if len(values) == 1:
        return f"{values[0]:,.0f}"
    return f"{median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"
