"""How far a budget has come, as the handler of a job sees it."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from holdfast.policies.money import MICRO, shown_amount

Level = Literal["normal", "alert", "reduce", "defer", "stop"]

_STRENGTH: tuple[Level, ...] = ("normal", "alert", "reduce", "defer", "stop")


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What a job may still count on: the sums of its budget's period, as of its last reservation or spend.

    `level` is the strongest action whose threshold the spent sum has reached, "normal" before the first. What was set
    aside for lost jobs counts as spent. `estimate` is what was set aside for this one.
    """

    budget: str
    key: str
    unit: str
    level: Level
    spent_micro: int
    reserved_micro: int
    ceiling_micro: int
    estimate_micro: int
    starts_at: datetime
    ends_at: datetime

    @property
    def spent(self) -> Decimal:
        """What was spent in the period so far."""
        return Decimal(self.spent_micro) / MICRO

    @property
    def reserved(self) -> Decimal:
        """What is set aside for jobs that run, this one included, and not spent yet."""
        return Decimal(self.reserved_micro) / MICRO

    @property
    def ceiling(self) -> Decimal:
        """How much may be spent in the period."""
        return Decimal(self.ceiling_micro) / MICRO

    @property
    def estimate(self) -> Decimal:
        """What was set aside for this job."""
        return Decimal(self.estimate_micro) / MICRO

    @property
    def remaining(self) -> Decimal:
        """What is neither spent nor set aside; below zero when more was spent than there is."""
        return Decimal(self.ceiling_micro - self.spent_micro - self.reserved_micro) / MICRO

    @property
    def share(self) -> float:
        """How much of the budget is spent: 0.8 is 80 %."""
        return self.spent_micro / self.ceiling_micro if self.ceiling_micro else 1.0

    def __str__(self) -> str:
        spent, ceiling = shown_amount(self.spent_micro, self.unit), shown_amount(self.ceiling_micro, self.unit)
        return f"{self.budget}: {spent} of {ceiling} spent ({self.level})"


def level_of(spent: int, ceiling: int, thresholds: tuple[tuple[int, str], ...]) -> Level:
    """Find the strongest action that a sum has reached; thresholds are pairs of a share in millionths and an action."""
    reached = {action for share, action in thresholds if spent >= ceiling * share // MICRO}
    return next((level for level in reversed(_STRENGTH) if level in reached), "normal")
