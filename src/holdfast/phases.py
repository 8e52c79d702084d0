"""The phases of a job as readers see them: the planned and the stored ones, and what the job's state makes of both."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from math import floor
from typing import Any

import msgspec


class PhaseState(StrEnum):
    """Where a phase stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PhaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a job; `claim` is the claim that worked on it last."""

    name: str
    ordinal: int
    weight: float = 1
    state: PhaseState = PhaseState.PENDING
    claim: int | None = None
    percent: float | None = None
    message: str | None = None
    data: Any = None
    error: str | None = None
    result: Any = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


Plan = Sequence[tuple[str, float]]
"""The names and weights of the phases that a task will go through."""


def with_planned(stored: Sequence[PhaseRow], plan: Plan) -> list[PhaseRow]:
    """Put the phases that have not begun beside those that have, in order, and steps after the phase they belong to."""
    known = {phase.name for phase in stored}
    waiting = [
        PhaseRow(name=name, ordinal=ordinal, weight=weight)
        for ordinal, (name, weight) in enumerate(plan)
        if name not in known
    ]
    planned = {name for name, _ in plan}
    return sorted([*stored, *waiting], key=lambda phase: (phase.ordinal, phase.name not in planned))


def closed(phase: PhaseRow, end: PhaseState | None, error: str | None) -> PhaseRow:
    """Tell what becomes of a phase when its job has ended so: nothing of an ended job goes on."""
    if end is None or phase.state is PhaseState.COMPLETED or end is PhaseState.COMPLETED:
        return phase
    if end is PhaseState.CANCELLED:
        return msgspec.structs.replace(phase, state=PhaseState.CANCELLED)
    if phase.state is PhaseState.RUNNING:
        return msgspec.structs.replace(phase, state=PhaseState.FAILED, error=phase.error or error)
    return phase


@lru_cache(maxsize=1_000)
def _shares(plan: tuple[tuple[str, float], ...]) -> tuple[float, tuple[float, ...]]:
    """Add the weights up: all of them, and those before each phase."""
    weights = [weight for _, weight in plan]
    return sum(weights), tuple(sum(weights[:ordinal]) for ordinal in range(len(weights)))


def overall(plan: Plan, ordinal: int, percent: float) -> float:
    """How far a whole job is, half rounded up: 50 % of the first of three equal phases are 17 %."""
    total, before = _shares(tuple(plan))
    return float(floor((before[ordinal] + plan[ordinal][1] * percent / 100) / total * 100 + 0.5))
