"""An endpoint that fails again and again is left alone for a minute."""

from holdfast.webhooks.breaker import ENDPOINTS, Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(5):
        assert breaker.may_try("a")
        breaker.failed("a")
    return breaker


def test_five_failures_in_a_row_open_it_for_a_minute() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert not breaker.may_try("a")
    assert breaker.may_try("b")
    clock.now += 59.9
    assert not breaker.may_try("a")
    clock.now += 0.1
    assert breaker.may_try("a")


def test_a_success_between_failures_starts_the_count_again() -> None:
    breaker = Breaker(Clock())
    for _ in range(3):
        for _ in range(4):
            breaker.failed("a")
        breaker.succeeded("a")
    assert breaker.may_try("a")


def test_after_the_pause_one_trial_goes_through() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    assert [breaker.may_try("a") for _ in range(3)] == [True, False, False]


def test_a_trial_that_succeeds_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    assert breaker.may_try("a")
    breaker.succeeded("a")
    assert [breaker.may_try("a") for _ in range(3)] == [True, True, True]


def test_a_trial_that_fails_opens_it_for_another_minute() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    assert breaker.may_try("a")
    clock.now += 10
    breaker.failed("a")
    clock.now += 59.9
    assert not breaker.may_try("a")
    clock.now += 0.1
    assert breaker.may_try("a")


def test_a_trial_that_is_never_heard_of_again_gives_way_to_another() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    assert breaker.may_try("a")
    clock.now += 60
    assert breaker.may_try("a")


def test_the_endpoint_that_failed_longest_ago_is_forgotten_first() -> None:
    breaker = opened(Clock())
    for number in range(ENDPOINTS - 1):
        breaker.failed(f"e{number}")
    assert not breaker.may_try("a")
    breaker.failed("one more")
    assert breaker.may_try("a")


def test_the_clock_of_the_machine_is_the_default() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed("a")
    assert not breaker.may_try("a")
