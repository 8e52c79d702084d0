"""Tables of resources: each column says beside its title what it shows of a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from holdfast import ages
from holdfast.cli.output import Cell, Column

T = TypeVar("T")

Value = Cell | Callable[[datetime], Cell] | datetime | str | int | None


@dataclass(frozen=True)
class Attribute(Generic[T]):
    """A column and its value for a row.

    A moment is shown as its age and piped as it is, None is left empty, and what depends on the time is a
    function of it.
    """

    title: str
    value: Callable[[T], Value]
    is_flexible: bool = False
    is_number: bool = False
    is_spare: bool = False


class ResourceTable(Generic[T]):
    """The columns of a table of resources."""

    def __init__(self, *attributes: Attribute[T]) -> None:
        self._attributes = attributes
        self._columns = [Column(each.title, each.is_flexible, each.is_number, each.is_spare) for each in attributes]

    def of(self, rows: Sequence[T], now: datetime | None = None) -> tuple[Sequence[Column], Sequence[Sequence[Cell]]]:
        """Give the columns and the cells of some rows; ages are those at a time, or now."""
        at = ages.now() if now is None else now
        return self._columns, [[_cell(each.value(row), at) for each in self._attributes] for row in rows]


def _cell(value: Value, now: datetime) -> Cell:
    if isinstance(value, datetime):
        return Cell(ages.age(value, now), ages.iso(value))
    if callable(value):
        return value(now)
    return value if isinstance(value, Cell) else Cell("" if value is None else str(value))


def counted(count: int) -> Cell:
    """Show a number with commas, and pipe it without."""
    return Cell(f"{count:,}", str(count))
