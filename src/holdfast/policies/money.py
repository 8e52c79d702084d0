"""Amounts as people write them: `$500`, `0.02 usd`, `1200000 tokens`. Kept as whole millionths."""

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, NamedTuple

from holdfast.errors import InvalidValue, shown
from holdfast.formats import Format, text_format

MICRO = 1_000_000
USD = "usd"
MOST = 10**12  # units: a sum of many still fits 64 bits of millionths
_WRITTEN = re.compile(r"\s*(\$?)\s*([0-9][0-9_,]*(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z][A-Za-z0-9_-]{0,31})?\s*", re.ASCII)
_UNIT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)

Written = str | int | float | Decimal


class Amount(NamedTuple):
    """Millionths of a unit."""

    micro: int
    unit: str

    def __str__(self) -> str:
        return shown_amount(self.micro, self.unit)


def read_unit(unit: str, what: str = "unit") -> str:
    """Check the name of a unit."""
    if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
        message = f'{what}: expected a word like "usd" or "tokens", got {shown(unit)}'
        raise InvalidValue(message)
    return unit.lower()


def read_amount(value: Written, unit: str | None = None, what: str = "amount") -> Amount:
    """Read an amount; a bare number is of the unit given, or dollars."""
    given, named = value, None
    if isinstance(value, str):
        found = _WRITTEN.fullmatch(value)
        if found is None or (found[1] and found[3] and found[3].lower() != USD):
            message = f'{what}: expected an amount like "$500", "0.02 usd" or "1000 tokens", got {shown(value)}'
            raise InvalidValue(message)
        given, named = found[2].replace(",", "").replace("_", ""), USD if found[1] else found[3]
    if isinstance(given, bool) or (isinstance(given, float) and not math.isfinite(given)):
        message = f"{what}: expected a finite number, got {shown(value)}"
        raise InvalidValue(message)
    try:
        number = Decimal(str(given))
    except InvalidOperation:
        message = f'{what}: expected an amount like "$500" or a number, got {shown(value)}'
        raise InvalidValue(message) from None
    if not 0 <= number <= MOST:
        message = f"{what}: expected from 0 to {MOST}, got {shown(value)}"
        raise InvalidValue(message)
    if named is not None and unit is not None and read_unit(named) != read_unit(unit):
        message = f"{what}: expected an amount of {unit}, got {shown(value)}"
        raise InvalidValue(message)
    return Amount(round(number * MICRO), read_unit(named or unit or USD))


def amount_text(amount: float, unit: str) -> str:
    """Write a number of units for people."""
    return shown_amount(round(amount * MICRO), unit)


def shown_amount(micro: int, unit: str) -> str:
    """Write an amount for people."""
    number = Decimal(micro) / MICRO
    if unit == USD:
        exact = f"{number:,.6f}".rstrip("0")
        whole, _, cents = exact.partition(".")
        return f"${whole}.{cents.ljust(2, '0')}" if micro >= 0 else f"-${whole.lstrip('-')}.{cents.ljust(2, '0')}"
    return f"{number:,f} {unit}" if number != number.to_integral_value() else f"{int(number):,} {unit}"


def _read_written(value: Any, what: str) -> Written:
    read_amount(value, what=what)
    written: Written = value
    return written


AmountText = Annotated[
    Written, Format(_read_written, {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]})
]
UnitText = Annotated[str, text_format(read_unit)]
"""Types of settings that are an amount or a unit, as they are written."""
