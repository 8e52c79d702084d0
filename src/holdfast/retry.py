"""When a failed attempt is followed by another."""

import math
import random
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.about import About
from holdfast.duration import DurationOrZero, milliseconds
from holdfast.errors import InvalidValue

Growth = Literal["fixed", "linear", "exponential"]


class Backoff(msgspec.Struct, frozen=True):
    """The wait before the next attempt: `base` grown by the attempts so far, spread by `jitter`, at most `cap`."""

    growth: Growth
    base_ms: int
    factor: float
    cap_ms: int
    jitter: float
    exponent_offset: int

    def delay_ms(self, attempt: int, spread: float | None = None) -> int:
        """Wait after the given attempt (the first is 1) failed; `spread` in [0, 1) replaces chance."""
        chance = random.random() if spread is None else spread
        grown = min(self._grown(attempt), float(self.cap_ms))
        return round(min(grown * (1 + self.jitter * (2 * chance - 1)), self.cap_ms))

    def _grown(self, attempt: int) -> float:
        step = max(attempt - 1 + self.exponent_offset, 0)
        if self.growth == "fixed":
            return self.base_ms
        if self.growth == "linear":
            return self.base_ms * (step + 1)
        if self.base_ms == 0:
            return 0
        # Compared as logarithms, because the power overflows long after the cap is reached.
        if step * math.log(self.factor) > math.log(self.cap_ms + 1) - math.log(self.base_ms):
            return self.cap_ms
        return self.base_ms * self.factor**step


def backoff(
    growth: Annotated[Growth, About("How the wait grows with the attempts.", "exponential")] = "exponential",
    base: Annotated[DurationOrZero, About("The wait after the first attempt.", "30s")] = "30s",
    *,
    factor: Annotated[float, Meta(ge=1, le=100), About("By how much an exponential wait grows each time.", 2)] = 2,
    cap: Annotated[DurationOrZero, About("The longest wait.", "1h")] = "1h",
    jitter: Annotated[
        float, Meta(ge=0, le=1), About("The share by which chance makes a wait longer or shorter.", 0.25)
    ] = 0.25,
    exponent_offset: Annotated[
        int, Meta(ge=0, le=100), About("How many attempts are counted before the first.", 0)
    ] = 0,
) -> Backoff:
    """Describe a backoff; by default 30 s x 2^(attempt-1), give or take a quarter, at most an hour."""
    if growth not in ("fixed", "linear", "exponential"):
        message = f"growth: expected fixed, linear or exponential, got {growth!r}"
        raise InvalidValue(message)
    if not 0 <= jitter <= 1:
        message = f"jitter: expected a share from 0 to 1, got {jitter!r}"
        raise InvalidValue(message)
    if not 1 <= factor <= 100:  # noqa: PLR2004 - a bound against slips, not a tuned number
        message = f"factor: expected from 1 to 100, got {factor!r}"
        raise InvalidValue(message)
    return Backoff(growth, milliseconds(base, "base"), factor, milliseconds(cap, "cap"), float(jitter), exponent_offset)
