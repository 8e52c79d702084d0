"""Waits between attempts: the seed's numbers, their spread and their cap."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidValue
from holdfast.retry import Backoff, Growth, backoff

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

HOUR = 3_600_000
SEED_SECONDS = [30, 60, 120, 240, 480]


@pytest.mark.parametrize("attempt, seconds", list(enumerate(SEED_SECONDS, start=1)))
def test_the_default_doubles_from_30_seconds_give_or_take_a_quarter(attempt: int, seconds: int) -> None:
    policy = backoff()
    assert policy.delay_ms(attempt, 0.5) == seconds * 1_000
    assert policy.delay_ms(attempt, 0.0) == seconds * 750
    assert policy.delay_ms(attempt, 0.999_999) == pytest.approx(seconds * 1_250, abs=5)


def test_chance_spreads_over_the_whole_range_and_no_further() -> None:
    random.seed(1)
    found = [backoff().delay_ms(1) for _ in range(2_000)]
    assert 22_500 <= min(found) < 23_000
    assert 37_000 < max(found) <= 37_500


@pytest.mark.parametrize("attempt", [8, 9, 100, 10**6, 10**18])
def test_no_wait_is_longer_than_the_cap(attempt: int) -> None:
    assert backoff().delay_ms(attempt, 0.5) == HOUR
    assert backoff().delay_ms(attempt, 0.999_999) == HOUR
    assert backoff().delay_ms(attempt, 0.0) == HOUR * 3 // 4


@pytest.mark.parametrize("growth", ["fixed", "linear", "exponential"])
def test_huge_numbers_of_attempts_cost_no_time_and_no_overflow(growth: Growth) -> None:
    for factor in (1, 1.5, 2, 100):
        delay = backoff(growth, "1s", factor=factor, cap="100d").delay_ms(10**12, 0.5)
        assert 0 <= delay <= 100 * 24 * HOUR


def test_the_offset_moves_the_exponent() -> None:
    shifted = backoff(exponent_offset=2, jitter=0)
    assert [shifted.delay_ms(attempt) for attempt in (1, 2)] == [120_000, 240_000]
    earlier = backoff(exponent_offset=-1, jitter=0)
    assert [earlier.delay_ms(attempt) for attempt in (1, 2, 3)] == [30_000, 30_000, 60_000]


def test_fixed_waits_the_same_every_time() -> None:
    policy = backoff("fixed", "10s", jitter=0)
    assert [policy.delay_ms(attempt) for attempt in (1, 2, 50)] == [10_000] * 3


def test_linear_adds_the_base_every_time() -> None:
    policy = backoff("linear", "10s", jitter=0)
    assert [policy.delay_ms(attempt) for attempt in (1, 2, 3)] == [10_000, 20_000, 30_000]
    assert backoff("linear", "10s", jitter=0, cap="25s").delay_ms(9) == 25_000


def test_a_factor_of_its_own() -> None:
    policy = backoff(base="1s", factor=3, jitter=0)
    assert [policy.delay_ms(attempt) for attempt in (1, 2, 3, 4)] == [1_000, 3_000, 9_000, 27_000]


@pytest.mark.timeout(5)
def test_nothing_between_attempts() -> None:
    assert backoff("fixed", 0).delay_ms(1) == 0
    assert backoff("exponential", 0).delay_ms(10**9) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"growth": "quadratic"},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"factor": 0.5},
        {"factor": 101},
        {"factor": float("nan")},
        {"base": "soon"},
        {"base": -1},
        {"cap": "never"},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        backoff(**options)  # type: ignore[arg-type] # wrong on purpose


policies = st.builds(
    backoff,
    growth=st.sampled_from(["fixed", "linear", "exponential"]),
    base=st.integers(1, 10**8),
    factor=st.just(1.0) | st.floats(1.01, 100),
    cap=st.integers(0, 10**8),
    jitter=st.floats(0, 1),
    exponent_offset=st.integers(-5, 5),
)


@steady
@given(policies, st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_every_wait_lies_between_nothing_and_the_cap(policy: Backoff, attempt: int, spread: float) -> None:
    assert 0 <= policy.delay_ms(attempt, spread) <= policy.cap_ms


@steady
@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_a_later_attempt_never_waits_less(attempt: int, spread: float) -> None:
    assert backoff().delay_ms(attempt, spread) <= backoff().delay_ms(attempt + 1, spread)
