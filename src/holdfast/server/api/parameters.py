"""What parameters of many routes have in common: pages, times, numbers, names."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from holdfast.client.jobs import LARGEST_PAGE
from holdfast.resources.request import REASON_BYTES

_MOST_DIGITS = 15  # below 2^53
NAME = 64


def _clamped(limit: int) -> int:
    return min(limit, LARGEST_PAGE)


def _written(given: Any) -> Any:
    """Refuse numbers, which would be read as seconds since 1970."""
    if isinstance(given, datetime) or (isinstance(given, str) and "T" in given.upper()):
        return given
    message = "expected a time with an offset, such as 2026-11-16T09:30:00Z"
    raise ValueError(message)


def _universal(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = "expected a time between the years 1 and 9999"
        raise ValueError(message) from None


Instant = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_universal)]
"""A time with an offset; it is read as UTC."""

Limit = Annotated[
    int,
    Query(ge=1, description=f"How many at most; {LARGEST_PAGE:,} where more are asked for.", examples=[50]),
    AfterValidator(_clamped),
]
Before = Annotated[
    str | None,
    Query(
        pattern=rf"^[0-9]{{1,{_MOST_DIGITS}}}$",
        description="Only older ones: `next` of the page before.",
        examples=["1042"],
    ),
]
Number = Annotated[str, Path(pattern=rf"^[0-9]{{1,{_MOST_DIGITS}}}$", description="Its number.", examples=["17"])]
Reason = Annotated[
    str | None,
    Field(
        max_length=REASON_BYTES // 4,
        description="Why; it is kept, and shown to whoever looks later.",
        examples=["the mail provider is down"],
    ),
]


def as_number(given: str | None) -> int | None:
    """Read where a page begins, or None."""
    return None if given is None else int(given)


def next_before(rows: int, limit: int, last: int | None) -> str | None:
    """Where the next page begins: after the last row of a full one."""
    return str(last) if last is not None and rows >= limit else None
