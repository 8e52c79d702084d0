"""A breaker for every endpoint: who fails again and again is left alone for a while.

It lives in the memory of one process: it spares an endpoint and our own time, and nothing depends on it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FAILURES = 5
OPEN_S = 60.0
ENDPOINTS = 10_000


@dataclass
class _Trouble:
    failures: int = 0
    paused_until: float = 0.0


class Breaker:
    """Counts the failures in a row of endpoints; those that work take no memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()

    def may_try(self, endpoint: str) -> bool:
        """Whether an attempt may be made now; when the pause has ended, one of them is the trial."""
        trouble = self._troubles.get(endpoint)
        if trouble is None or trouble.failures < FAILURES:
            return True
        now = self._clock()
        if now < trouble.paused_until:
            return False
        trouble.paused_until = now + OPEN_S  # a trial that is never heard of again gives way to the next one
        return True

    def succeeded(self, endpoint: str) -> None:
        """Forget the troubles of an endpoint that works."""
        self._troubles.pop(endpoint, None)

    def failed(self, endpoint: str) -> None:
        """Count one more failure, and forget the endpoint that failed longest ago when there are too many."""
        trouble = self._troubles.setdefault(endpoint, _Trouble())
        self._troubles.move_to_end(endpoint)
        trouble.failures += 1
        if trouble.failures >= FAILURES:
            trouble.paused_until = self._clock() + OPEN_S
        if len(self._troubles) > ENDPOINTS:
            self._troubles.popitem(last=False)
