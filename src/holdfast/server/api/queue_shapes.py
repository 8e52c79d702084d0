"""Queues as the API shows them."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from holdfast.client.families import QueueFamily
from holdfast.server.api.parameters import Reason
from holdfast.server.api.shape import Asked, Moment, Shape
from holdfast.stores.values import LaneGauge


class PauseRequest(Asked):
    """Why a queue is paused."""

    reason: Reason = None


class PurgeRequest(Asked):
    """How fast the waiting jobs of a queue are cancelled, and why."""

    rate: str | None = Field(default=None, max_length=40, description="So many in a time.", examples=["50/s"])
    reason: Reason = None


class QueueSetting(Asked):
    """What a setting of a queue is to be, and why."""

    value: Any = Field(description="As in the configuration.", examples=[20])
    reason: Reason = None


class GaugeShape(Shape):
    """How many jobs are in one state, when that was last measured; `capped` says "this many or more"."""

    jobs: int = Field(examples=[128])
    capped: bool = Field(examples=[False])


class QueueShape(Shape):
    """A queue: what is published of it, whether it rests, and how long its jobs wait (in milliseconds)."""

    name: str = Field(examples=["high"])
    description: str | None = Field(None, examples=["what people wait for"])
    colour: str | None = Field(None, examples=["#c0392b"])
    priority: int | None = Field(None, examples=[5])
    workers: int | None = Field(None, description="How many of its jobs an instance runs at once.", examples=[10])
    max_workers: int | None = Field(None, examples=[40])
    poll_ms: int | None = Field(None, examples=[1_000])
    sla_ms: int | None = Field(None, description="Within which its jobs are to start.", examples=[30_000])
    age_after_ms: int | None = Field(None, examples=[600_000])
    age_share: int | None = Field(None, description="One claimed job in so many is an old one.", examples=[8])
    escalation: str | None = Field(None, description="Who is told when it goes wrong.", examples=["ops"])
    p95_wait_ms: int | None = Field(None, examples=[1_200])
    oldest_wait_ms: int | None = Field(None, examples=[2_400])
    starts: int | None = Field(None, description="Of which that is known.", examples=[311])
    waiting: int | None = Field(None, examples=[12])
    late_since: Moment | None = Field(None, examples=["2026-11-16T09:30:00Z"])
    paused_at: Moment | None = Field(None, examples=["2026-11-16T09:30:00Z"])
    paused_by: str | None = Field(None, examples=["ann"])
    paused_reason: str | None = Field(None, examples=["the mail provider is down"])
    counts: dict[str, GaugeShape] = Field(
        description="Live jobs by state, as measured within the last seconds.",
        examples=[{"queued": {"jobs": 128, "capped": False}}],
    )


class QueueList(Shape):
    """All queues that the asker may see."""

    queues: list[QueueShape]


def queue_shape(family: QueueFamily, gauges: Iterable[LaneGauge] = ()) -> QueueShape:
    """Show a queue."""
    row, waits = family.row, family.waits
    return QueueShape(
        name=row.name,
        description=family.description,
        colour=family.colour,
        priority=family.priority,
        workers=family.workers,
        max_workers=family.max_workers,
        poll_ms=family.poll_ms,
        sla_ms=family.sla_ms,
        age_after_ms=family.age_after_ms,
        age_share=family.age_share,
        escalation=family.escalation,
        p95_wait_ms=None if waits is None else waits.p95_ms,
        oldest_wait_ms=None if waits is None else waits.oldest_ms,
        starts=None if waits is None else waits.starts,
        waiting=None if waits is None else waits.waiting,
        late_since=waits.breached_at if waits is not None and family.is_late else None,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        paused_reason=row.paused_reason,
        counts=_counts(gauge for gauge in gauges if gauge.queue == row.name),
    )


def _counts(gauges: Iterable[LaneGauge]) -> dict[str, GaugeShape]:
    """Add up the lanes of a queue."""
    found: dict[str, GaugeShape] = {}
    for gauge in gauges:
        before = found.get(gauge.state.value, GaugeShape(jobs=0, capped=False))
        found[gauge.state.value] = GaugeShape(jobs=before.jobs + gauge.jobs, capped=before.capped or gauge.capped)
    return found
