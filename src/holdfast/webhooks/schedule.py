"""When a webhook that failed is tried again: ten attempts over about three days."""

import random
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from holdfast.errors import InvalidValue, shown

_MINUTE, _HOUR = 60, 3_600
_DELAYS_S = (5, 5 * _MINUTE, 30 * _MINUTE, *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)))
ATTEMPTS = len(_DELAYS_S) + 1
LONGEST_WAIT_S = 24 * _HOUR
_JITTER = 0.1
_SECONDS = re.compile(r"[0-9]+")
_LONGEST_DATE = 64


def next_delay_s(attempt: int, *, retry_after_s: float | None) -> float | None:
    """How long to wait after the attempt-th failed attempt, counted from 1; None when it was the last."""
    if attempt < 1:
        message = f"webhook attempt: expected a number from 1, got {shown(attempt)}"
        raise InvalidValue(message)
    if attempt >= ATTEMPTS:
        return None
    delay_s = _DELAYS_S[attempt - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)
    return max(delay_s, min(retry_after_s or 0.0, LONGEST_WAIT_S))


def read_retry_after(value: str | None, now: datetime) -> float | None:
    """Read a Retry-After header, seconds or a date, as at most a day; None when it is missing or makes no sense."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), float(LONGEST_WAIT_S))
    if not text or len(text) > _LONGEST_DATE:
        return None
    try:
        moment = parsedate_to_datetime(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        wait_s = (moment - now).total_seconds()
    except (ArithmeticError, LookupError, TypeError, ValueError):  # the parser of dates has many ways to say no
        return None
    return min(max(wait_s, 0.0), float(LONGEST_WAIT_S))
