"""Durations as people write them."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.duration import LONGEST_MS, Duration, milliseconds
from holdfast.errors import InvalidValue

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure


@pytest.mark.parametrize(
    "value, expected",
    [
        (0, 0),
        (90, 90_000),
        (1.5, 1_500),
        (0.0004, 0),
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1.5h", 5_400_000),
        ("1h 30m", 5_400_000),
        ("1h30m", 5_400_000),
        ("1 h 30 m", 5_400_000),
        (" 2D ", 172_800_000),
        ("1w", 604_800_000),
        ("1m 1m", 120_000),
        (timedelta(minutes=2, milliseconds=3), 120_003),
        (timedelta(microseconds=1), 0),
        (LONGEST_MS / 1_000, LONGEST_MS),
    ],
)
def test_what_people_write_is_read(value: Duration, expected: int) -> None:
    assert milliseconds(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.001,
        timedelta(seconds=-1),
        "-5m",
        math.nan,
        math.inf,
        -math.inf,
        LONGEST_MS,
        10**400,
        "999999999999999999w",
        "9" * 400 + "d",
        timedelta.max,
        "",
        "  ",
        "5",
        "m",
        "5x",
        "5m!",
        "1h and 5m",
        "1e3s",
        "٣s",
        "1.s",
        ".5s",
        "5 min",
        True,
        False,
        None,
        [],
        b"5m",
        object(),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^wait: expected"):
        milliseconds(value, "wait")


@steady
@given(st.integers(0, LONGEST_MS))
def test_milliseconds_come_back_from_every_form(number: int) -> None:
    assert milliseconds(timedelta(milliseconds=number)) == number
    assert milliseconds(f"{number // 1_000}s {number % 1_000}ms") == number
    assert milliseconds(number / 1_000) == number


@steady
@given(st.text(max_size=30) | st.floats() | st.integers() | st.timedeltas())
def test_any_value_is_read_within_bounds_or_refused(value: Duration) -> None:
    try:
        found = milliseconds(value)
    except InvalidValue:
        return
    assert 0 <= found <= LONGEST_MS
