"""Histograms that can be added up, and percentiles read from them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rollup import BUCKETS, bucket, percentile, upper_bound_ms

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

durations = st.floats(0, 10**9)


@steady
@given(durations, durations)
def test_a_longer_duration_never_lies_in_a_lower_bucket(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= bucket(low) <= bucket(high) < BUCKETS


@steady
@given(durations)
def test_a_duration_lies_below_the_bound_of_its_bucket_and_not_below_the_one_before(duration: float) -> None:
    number = bucket(duration)
    if number < BUCKETS - 1:
        assert duration < upper_bound_ms(number)
    if number:
        assert duration >= upper_bound_ms(number - 1)


@pytest.mark.parametrize("duration, number", [(-5, 0), (0, 0), (0.99, 0), (1, 1), (2, 3), (1_000, 20), (1e12, 43)])
def test_known_durations(duration: float, number: int) -> None:
    assert bucket(duration) == number


def test_buckets_double_every_second_one() -> None:
    assert [upper_bound_ms(number) for number in (0, 2, 4, 20)] == [1, 2, 4, 1024]
    assert upper_bound_ms(BUCKETS - 1) > 25 * 60 * 1_000


@steady
@given(st.lists(durations, min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_at_most_one_bucket_above_the_truth(values: list[float], share: float) -> None:
    histogram = dict(Counter(bucket(value) for value in values))
    found = percentile(histogram, share)
    rank = next(n for n in range(1, len(values) + 1) if n >= share * len(values))
    assert found == upper_bound_ms(bucket(sorted(values)[rank - 1]))


@steady
@given(st.lists(durations, min_size=1), st.lists(durations), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_merged_histograms_give_the_percentile_of_all(one: list[float], other: list[float], share: float) -> None:
    counts = [Counter(bucket(value) for value in values) for values in (one, other)]
    together = Counter(bucket(value) for value in one + other)
    assert percentile(dict(counts[0] + counts[1]), share) == percentile(dict(together), share)


def test_percentiles_grow_with_their_share() -> None:
    histogram = {3: 50, 10: 45, 20: 4, 43: 1}
    shares = [percentile(histogram, share) for share in (0.5, 0.95, 0.99, 1.0)]
    assert shares == [upper_bound_ms(number) for number in (3, 10, 20, 43)]


@pytest.mark.parametrize("histogram", [{}, {5: 0}])
def test_nothing_counted_has_no_percentile(histogram: dict[int, int]) -> None:
    assert percentile(histogram, 0.5) is None
