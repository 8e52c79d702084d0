"""What jobs are told to do."""

from typing import Any

from pydantic import Field

from holdfast import names
from holdfast.server.api.enqueue_shapes import Length
from holdfast.server.api.parameters import Instant, Reason
from holdfast.server.api.shape import Asked


class CancelRequest(Asked):
    """Why a job is cancelled."""

    reason: Reason = None


class RetryRequest(Asked):
    """Where a new life begins: at a phase, or where the last one stopped."""

    from_phase: str | None = Field(None, min_length=1, max_length=128, examples=["import"])


class RescheduleRequest(Asked):
    """When a job is due: at a time, or after a delay."""

    run_at: Instant | None = Field(None, examples=["2026-11-16T09:30:00Z"])
    delay: Length | None = Field(None, examples=["5m"])


class ReprioritiseRequest(Asked):
    """How urgent a job is: 0 goes first, 10 last."""

    priority: int = Field(ge=names.HIGHEST_PRIORITY, le=names.LOWEST_PRIORITY, strict=True, examples=[1])


class ReplayRequest(Asked):
    """The arguments that differ from those of the finished job."""

    args: dict[str, Any] = Field(default_factory=dict, examples=[{"to": "grace@example.org"}])
