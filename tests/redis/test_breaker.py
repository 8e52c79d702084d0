"""The breaker: it opens after some failures in a row, lets one through at a time, and waits longer each time."""

import time

import pytest

from holdfast.delivery.redis_breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    return made


def test_it_opens_after_failures_in_a_row_only(clock: Clock) -> None:
    breaker = Breaker(3, 1.0, 30.0)
    breaker.failed()
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    breaker.failed()
    assert breaker.allows()
    assert not breaker.is_open
    breaker.failed()
    assert breaker.is_open
    assert not breaker.allows()
    assert 0.5 <= breaker.due_in_s <= 1.0


def test_only_one_may_try(clock: Clock) -> None:
    breaker = Breaker(1, 1.0, 30.0)
    breaker.failed()
    clock.now += 1.0
    assert breaker.allows()
    assert not breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.allows()


def test_one_who_tried_and_never_told_does_not_block_it_for_ever(clock: Clock) -> None:
    breaker = Breaker(1, 1.0, 30.0)
    breaker.failed()
    clock.now += 1.0
    assert breaker.allows()
    clock.now += 1.0
    assert breaker.allows()


def test_waits_grow_to_the_longest_and_begin_anew(clock: Clock) -> None:
    breaker = Breaker(1, 1.0, 30.0)
    longest = 1.0
    for _ in range(10):
        breaker.failed()
        assert longest / 2 <= breaker.due_in_s <= longest
        clock.now += breaker.due_in_s
        assert breaker.allows()
        longest = min(longest * 2, 30.0)
    breaker.succeeded()
    breaker.failed()
    assert breaker.due_in_s <= 1.0
