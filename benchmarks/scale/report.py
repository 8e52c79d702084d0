"""What a run found, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | int | float


@dataclass(frozen=True)
class Figure:
    """One number that is to be reached: at least so much, or at most."""

    text: str
    value: float
    wanted: float
    at_least: bool

    @property
    def is_reached(self) -> bool:
        """Whether it is."""
        return self.value >= self.wanted if self.at_least else self.value <= self.wanted

    @property
    def verdict(self) -> str:
        """The word that the tables show."""
        return "reached" if self.is_reached else "short"

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.text}: {self.value:.2f} (wanted {sign} {self.wanted:g}): {self.verdict}"


@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Curves:
    """Lines of points, to be plotted if there is something to plot with."""

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    is_logarithmic: bool = False


@dataclass(frozen=True)
class Report:
    """All that one run found."""

    name: str
    title: str
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    curves: Sequence[Curves] = ()
    raw: Mapping[str, object] = field(default_factory=dict)


def shown(cell: Cell) -> str:
    """Write a number as people read it."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1_000:
        return f"{cell:,.0f}"
    return f"{cell:.2f}"
