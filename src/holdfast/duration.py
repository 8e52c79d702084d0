"""Durations as people write them: `90`, `1.5`, `"30s"`, `"5m"`, `"1h 30m"`, `timedelta`."""

import math
import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from holdfast.errors import InvalidValue, shown
from holdfast.formats import Format, number_of

Duration = int | float | str | timedelta

LONGEST_MS = 100 * 365 * 86_400_000
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*", re.ASCII)


def milliseconds(value: Duration, what: str = "duration") -> int:
    """Read a duration as whole milliseconds; a bare number counts seconds."""
    length = _read(value)
    if length is None or math.isnan(length):
        expected = 'seconds as a number, a timedelta, or text like "90s", "5m", "1h 30m"'
        message = f"{what}: expected {expected}, got {shown(value)}"
        raise InvalidValue(message)
    if not 0 <= length <= LONGEST_MS:
        message = f"{what}: expected between 0 and 100 years, got {shown(value)}"
        raise InvalidValue(message)
    return round(length)


def positive_ms(value: Duration, what: str, hint: str = "") -> int:
    """Read a duration that must not be zero; `hint` is added to what a refusal says."""
    if isinstance(value, float) and not math.isfinite(value):
        message = f"{what}: expected a finite duration, got {value!r}{hint}"
        raise InvalidValue(message)
    length = milliseconds(value, what)
    if length == 0:
        message = f"{what}: expected more than 0, got {value!r}{hint}"
        raise InvalidValue(message)
    return length


def timeout_ms(timeout: Duration | None) -> int | None:
    """Read how long a job may run; None, written out, means as long as it likes."""
    if timeout is None:
        return None
    return positive_ms(timeout, "timeout", "; None means no timeout")


def _read(value: Duration) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1_000
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _as_float(value) * 1_000
    if not isinstance(value, str) or not (text := value.strip().lower()):
        return None
    total, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            return None
        total += float(part[1]) * _MS[part[2]]
        end = part.end()
    return total


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond every float
        return math.inf if value > 0 else -math.inf


def _format(*words: str, least_ms: int = 0) -> Format:
    """Make the format of a duration in a file; certain words may stand for one."""
    pattern = r"^\s*([0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)\s*)+$"
    forms: list[dict[str, Any]] = [{"type": "string", "pattern": pattern}, {"type": "number", "minimum": 0}]
    expected = " or ".join(("a duration like 90s, 5m or 1h 30m", *words))

    def read(value: Any, what: str) -> Any:
        if value in words:
            return value
        try:
            length = milliseconds(value, what)
        except InvalidValue:
            message = f"{what}: expected {expected}, got {shown(value)}"
            raise InvalidValue(message) from None
        if length < least_ms:
            message = f"{what}: expected more than 0, got {shown(value)}"
            raise InvalidValue(message)
        return value

    return Format(read, {"anyOf": [*forms, *([{"enum": list(words)}] if words else [])]}, number_of)


DurationOrZero = Annotated[Duration, _format()]
PositiveDuration = Annotated[Duration, _format(least_ms=1)]
KeptFor = Annotated[Duration | Literal["forever"], _format("forever", least_ms=1)]
"""Types of settings; the configuration file is checked with them."""
