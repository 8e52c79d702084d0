"""What can be asked to be done to one job."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from holdfast import names
from holdfast.about import About
from holdfast.resources.examples import MOMENT
from holdfast.resources.request import LENGTH, REASON, Instant, Length, Reason, Request

_PHASE_BYTES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest(Request):
    """Why a job is cancelled."""

    reason: Reason = field(default=None, metadata=REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest(Request):
    """Where a new run begins: at a phase, or where the last one stopped."""

    from_phase: Annotated[str | None, About("Run this phase and all later ones again.", "import")] = field(
        default=None, metadata={"min_length": 1, "max_length": _PHASE_BYTES}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleRequest(Request):
    """When a job may run: at a time, or after a delay."""

    run_at: Annotated[Instant | None, About("At which time.", MOMENT)] = None
    delay: Annotated[Length | None, About('How much later than now: seconds, or text like "90s", "1h 30m".', "5m")] = (
        field(default=None, metadata=LENGTH)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReprioritiseRequest(Request):
    """How urgent a job is."""

    priority: Annotated[int, About("0 goes first, 10 last.", 1)] = field(
        metadata={"ge": names.HIGHEST_PRIORITY, "le": names.LOWEST_PRIORITY, "strict": True}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRequest(Request):
    """The arguments that differ from those of the finished job."""

    args: Annotated[
        dict[str, Any], About("They are checked as those of a new job are.", {"to": "grace@example.org"})
    ] = field(default_factory=dict)
