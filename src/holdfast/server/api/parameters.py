"""What parameters of many routes have in common: pages, numbers, names."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator

from holdfast.client.jobs import LARGEST_PAGE

_MOST_DIGITS = 15  # below 2^53
NAME = 64


def _clamped(limit: int) -> int:
    return min(limit, LARGEST_PAGE)


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
