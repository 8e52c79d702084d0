"""What comes out of a run: figures, each with one value per round."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

TIE = 1.5
"""Figures less than so many times apart are taken for equal."""


class Unit(StrEnum):
    """What a figure counts."""

    COMMITS = "commits/s"
    JOBS = "jobs/s"
    MILLISECONDS = "ms"
    CORE = "% of a core"
    MEGABYTES = "MB"


@dataclass(frozen=True)
class Figure:
    """A figure: `name` is for programs, `label` for people."""

    name: str
    label: str
    unit: Unit
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.rounds)

    @property
    def low(self) -> float:
        """The lowest value."""
        return min(self.rounds)

    @property
    def high(self) -> float:
        """The highest value."""
        return max(self.rounds)

    def against(self, other: "Figure") -> float:
        """How many times as much as another figure it is: the median of the ratios within the same round."""
        return statistics.median(own / its for own, its in zip(self.rounds, other.rounds, strict=True))

    @property
    def is_rate(self) -> bool:
        """Whether more of it is faster."""
        return self.unit in (Unit.COMMITS, Unit.JOBS)

    @property
    def is_steady(self) -> bool:
        """Whether its rounds are so close to each other that the median says something."""
        return self.high < TIE * self.low


def percentile(values: Sequence[float], per_cent: int) -> float:
    """The lowest value that so many per cent of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * per_cent / 100) - 1, 0)]
