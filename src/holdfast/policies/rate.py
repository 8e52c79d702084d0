"""How many in how long, as people write it: `50/s`, `100/min`, `10/5m`."""

import re
from typing import Annotated, NamedTuple

from holdfast.duration import milliseconds
from holdfast.errors import InvalidValue, shown
from holdfast.formats import text_format

_RATE = re.compile(r"\s*([0-9]{1,7})\s*/\s*([0-9.]*\s*[a-z]+)\s*", re.ASCII)
_WORDS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
LONGEST_MS = 31 * 86_400_000


class Rate(NamedTuple):
    """So many in a period."""

    times: int
    period_ms: int

    @property
    def spacing_us(self) -> int:
        """Microseconds from one to the next, rounded up: no more of them than `times` fit into the period."""
        return -(-self.period_ms * 1_000 // self.times)


def read_rate(value: str, what: str) -> Rate:
    """Read a rate."""
    found = _RATE.fullmatch(value.lower()) if isinstance(value, str) else None
    message = f'{what}: expected so many in a time, like "50/s", "100/min" or "10/5m", got {shown(value)}'
    if found is None or int(found[1]) < 1:
        raise InvalidValue(message)
    length = found[2].replace(" ", "")
    unit = length.lstrip("0123456789.")
    written = (length.removesuffix(unit) or "1") + _WORDS.get(unit, unit)
    try:
        period_ms = milliseconds(written, what)
    except InvalidValue:
        raise InvalidValue(message) from None
    if not 1 <= period_ms <= LONGEST_MS:
        message = f"{what}: expected a time from 1 ms to 31 days, got {shown(value)}"
        raise InvalidValue(message)
    return Rate(int(found[1]), period_ms)


RateText = Annotated[str, text_format(read_rate, r"^\s*[0-9]{1,7}\s*/\s*[0-9.]*\s*[A-Za-z]+\s*$")]
"""The type of a setting that is a rate, as it is written."""
