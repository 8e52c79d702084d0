"""How a handler ends other than by returning: it raises one of these."""

import random

from holdfast.duration import Duration, milliseconds
from holdfast.errors import HoldfastError, LockCycle

_CYCLE_S = (0.1, 1.0)  # apart, so that those who met do not meet again


class Outcome(Exception):
    """The root of what a handler may raise on purpose; `reason` is kept with the job."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Outcome):
    """Try again: after `delay`, or after the task's backoff; it counts as an attempt."""

    def __init__(self, delay: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_ms = None if delay is None else milliseconds(delay, "Retry delay")


class Fatal(Outcome):
    """Give up: no further attempt would help."""


class BudgetExceeded(Fatal, HoldfastError):
    """The budget is spent: the job fails at once, whatever attempts are left."""


class Snooze(Outcome):
    """Call me again after `delay`; it uses no attempt."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_ms = milliseconds(delay, "Snooze delay")


class Throttle(Outcome):
    """Slow down: let the whole queue rest for `delay`, then call me again; it uses no attempt.

    For a service that answers "too many requests": no worker takes a job of this job's queue meanwhile.
    """

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_ms = max(milliseconds(delay, "Throttle delay"), 1)


class Cancel(Outcome):
    """End the job as cancelled."""


class Skip(Outcome):
    """There is nothing to do: end the job as completed, and keep the reason as its last progress."""


def outcome_of(error: BaseException) -> Outcome | None:
    """Find the outcome that an exception is, or the first one that a group of exceptions holds, however deep.

    A cycle of locks is nobody's fault: it is one more way to say Snooze.
    """
    rest = [error]
    while rest:
        current = rest.pop()
        if isinstance(current, Outcome):
            return current
        if isinstance(current, LockCycle):
            return Snooze(random.uniform(*_CYCLE_S), str(current))
        if isinstance(current, BaseExceptionGroup):
            rest.extend(reversed(current.exceptions))
    return None
