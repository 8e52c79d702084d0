"""What leaves a failing server alone, so that a dead one costs nothing."""

import random
import time

_GROWTH = 2.0


class Breaker:
    """Opens after some failures in a row, and then lets one try through after each of ever longer waits."""

    def __init__(self, failures: int, first_s: float, longest_s: float) -> None:
        self._limit = failures
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0
        self._wait_s = first_s
        self._next_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the last tries failed."""
        return self._failures >= self._limit

    @property
    def due_in_s(self) -> float:
        """How long no try is allowed yet."""
        return max(self._next_at - time.monotonic(), 0.0) if self.is_open else 0.0

    def allows(self) -> bool:
        """Whether a try may be made now; while it is open, whoever is told yes is the only one for a while."""
        if not self.is_open:
            return True
        if self.due_in_s > 0:
            return False
        self._rest()
        return True

    def succeeded(self) -> None:
        """Close."""
        self._failures = 0
        self._wait_s = self._first_s

    def failed(self) -> None:
        """Count a failure; after a failed try the next wait is longer."""
        if self.is_open:
            self._wait_s = min(self._wait_s * _GROWTH, self._longest_s)
        self._failures += 1
        self._rest()

    def _rest(self) -> None:
        # Spread, or everybody who lost a server at the same moment would come back to it at the same moment.
        self._next_at = time.monotonic() + self._wait_s * random.uniform(0.5, 1.0)
