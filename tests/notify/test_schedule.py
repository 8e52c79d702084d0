"""When a webhook is tried again."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidValue
from holdfast.webhooks.schedule import next_delay_s, read_retry_after

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
DAY_S = 86_400
DELAYS_S = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]


@pytest.mark.parametrize("attempt, delay_s", list(enumerate(DELAYS_S, start=1)))
def test_delays_follow_the_schedule_and_spread(attempt: int, delay_s: float) -> None:
    found = [next_delay_s(attempt, retry_after_s=None) or 0 for _ in range(200)]
    assert all(0.9 * delay_s <= one <= 1.1 * delay_s for one in found)
    assert max(found) - min(found) > 0.05 * delay_s


def test_ten_attempts_are_made() -> None:
    assert next_delay_s(9, retry_after_s=None) is not None
    assert next_delay_s(10, retry_after_s=None) is None
    assert next_delay_s(11, retry_after_s=60) is None


def test_every_delay_is_longer_than_the_one_before() -> None:
    found = [next_delay_s(attempt, retry_after_s=None) or 0 for attempt in range(1, 7)]
    assert all(one < other for one, other in pairwise(found))


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_count_from_one(attempt: int) -> None:
    with pytest.raises(InvalidValue, match=r"^webhook attempt: expected a number from 1"):
        next_delay_s(attempt, retry_after_s=None)


def test_retry_after_lengthens_and_never_shortens() -> None:
    assert next_delay_s(1, retry_after_s=100) == 100
    assert next_delay_s(1, retry_after_s=10 * DAY_S) == DAY_S
    assert 270 <= (next_delay_s(2, retry_after_s=1) or 0) <= 330
    assert 0.9 * DAY_S <= (next_delay_s(9, retry_after_s=10 * DAY_S) or 0) <= 1.1 * DAY_S


@pytest.mark.parametrize(
    "value, wait_s",
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("9" * 5_000, DAY_S),
        ("Sun, 15 Nov 2026 12:01:00 GMT", 60),
        ("Sunday, 15-Nov-26 12:01:00 GMT", 60),
        ("Sun Nov 15 12:01:00 2026", 60),
        ("Sun, 15 Nov 2026 12:01:00 -0000", 60),
        ("Sun, 15 Nov 2026 13:01:00 +0100", 60),
        ("Sun, 15 Nov 2026 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY_S),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, wait_s: float) -> None:
    assert read_retry_after(value, NOW) == wait_s


@pytest.mark.parametrize(
    "value", [None, "", " ", "-1", "1.5", "soon", "١٢", "1e3", "nan", "Sun, 99 Nov 2026", "x" * 10_000]
)
def test_other_values_are_ignored(value: str | None) -> None:
    assert read_retry_after(value, NOW) is None


@steady
@given(
    st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d+:\d+:\d+ ?[-+A-Z0-9]*", fullmatch=True)
)
def test_any_text_is_a_wait_of_at_most_a_day_or_ignored(value: str) -> None:
    found = read_retry_after(value, NOW)
    assert found is None or 0 <= found <= DAY_S


def test_now_may_be_in_any_zone() -> None:
    moment = NOW.astimezone(None) - timedelta(seconds=30)
    assert read_retry_after("Sun, 15 Nov 2026 12:00:00 GMT", moment) == 30
