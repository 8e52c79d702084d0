"""Schedules as the API shows and takes them."""

from datetime import date, datetime
from typing import Any

import msgspec
from pydantic import Field

from holdfast import public_id
from holdfast.client.schedules import ScheduleState
from holdfast.hours import Maintenance
from holdfast.payload import covered_json
from holdfast.schedules import Missed, Overlap
from holdfast.server.api.parameters import NAME, Reason
from holdfast.server.api.shape import Asked, Moment, Shape
from holdfast.stores.cluster import FireRow

_CRON = 256
_MOST_DAYS = 1_000
_SHORT = 40

Length = str


class TimesAsked(Asked):
    """When a schedule fires: by a cron line or an interval, within hours, on days, in a time zone."""

    cron: str | None = Field(None, max_length=_CRON, examples=["0 3 * * *"])
    every: Length | None = Field(None, max_length=_SHORT, examples=["5m"])
    window: tuple[str, str] | None = Field(None, examples=[["09:30", "16:00"]])
    days: str | None = Field(None, max_length=100, examples=["mon-fri"])
    tz: str | None = Field(None, max_length=NAME, examples=["Europe/Berlin"])
    exclude: list[date] | None = Field(None, max_length=_MOST_DAYS, examples=[["2026-12-25"]])
    jitter: Length | None = Field(None, max_length=_SHORT, examples=["30s"])
    overlap: Overlap | None = Field(None, description="While an earlier job is not finished.", examples=["skip"])
    missed: Missed | None = Field(None, description="For times that nobody was there for.", examples=["once"])
    most_missed: int | None = Field(None, ge=1, le=10_000, examples=[100])
    grace: Length | None = Field(None, max_length=_SHORT, examples=["60s"])


class NewSchedule(TimesAsked):
    """A schedule that no program defines."""

    name: str = Field(max_length=NAME, examples=["nightly-report"])
    kind: str = Field(max_length=NAME, description="The kind of its jobs.", examples=["send_report"])
    args: dict[str, Any] = Field(default_factory=dict, examples=[{"to": "ops@example.org"}])
    enabled: bool = Field(True, examples=[True])  # noqa: FBT003 - a default, named by its field


class ScheduleChange(TimesAsked):
    """What is to be other than programs say; times are given as a whole."""

    args: dict[str, Any] | None = Field(None, examples=[{"to": "ops@example.org"}])


class ScheduleShape(Shape):
    """A schedule: what it makes when, what people have changed of it, how far it has come."""

    name: str = Field(examples=["nightly-report"])
    kind: str = Field(examples=["send_report"])
    queue: str = Field(examples=["default"])
    args: Any = Field(examples=[{"to": "ops@example.org"}])
    times: str = Field(description="Its times in words.", examples=["0 3 * * * UTC"])
    cron: str | None = Field(examples=["0 3 * * *"])
    every_ms: int | None = Field(examples=[None])
    tz: str = Field(examples=["UTC"])
    overlap: str = Field(examples=["skip"])
    missed: str = Field(examples=["once"])
    enabled: bool = Field(examples=[True])
    withdrawn: bool = Field(description="Whether programs define it no more.", examples=[False])
    origin: str = Field(description="Who defines it.", examples=["code"])
    changed: list[str] = Field(description="What people have changed of it.", examples=[["times"]])
    changed_by: str | None = Field(examples=["ann"])
    last_fire: Moment | None = Field(examples=["2026-11-16T03:00:00Z"])
    next_fire: Moment | None = Field(examples=["2026-11-17T03:00:00Z"])


class ScheduleList(Shape):
    """All schedules that the asker may see."""

    schedules: list[ScheduleShape]


class NextFires(Shape):
    """When a schedule fires next."""

    schedule: str = Field(examples=["nightly-report"])
    times: list[Moment] = Field(examples=[["2026-11-17T03:00:00Z", "2026-11-18T03:00:00Z"]])


class FireShape(Shape):
    """What came of one time of a schedule."""

    schedule: str = Field(examples=["nightly-report"])
    time: Moment = Field(examples=["2026-11-16T03:00:00Z"])
    outcome: str = Field(examples=["enqueued"])
    job: str | None = Field(description="The public id of the job that was made.", examples=["htcx-2s16-z48b-09"])
    note: str | None = Field(examples=[None])
    recorded_at: Moment = Field(examples=["2026-11-16T03:00:01Z"])


class FireList(Shape):
    """What came of the last times of a schedule, the newest first."""

    fires: list[FireShape]


class ScheduledJob(Shape):
    """The job that was made of a schedule now."""

    id: str = Field(examples=["htcx-2s16-z48b-09"])


class NewWindow(Asked):
    """Hours in which no schedule fires: a window of the day or whole days, on weekdays or dates."""

    window: tuple[str, str] | None = Field(None, examples=[["02:00", "04:00"]])
    days: str | None = Field(None, max_length=100, examples=["sun"])
    tz: str = Field("UTC", max_length=NAME, examples=["Europe/Berlin"])
    dates: list[date] | None = Field(None, max_length=_MOST_DAYS, examples=[["2026-12-24"]])
    reason: Reason = None


class WindowShape(Shape):
    """Hours in which no schedule fires."""

    name: str = Field(examples=["release"])
    hours: str = Field(description="In words.", examples=["02:00-04:00 sun Europe/Berlin"])
    holds_until: Moment | None = Field(description="Until when it lasts, if it holds now.", examples=[None])


class WindowList(Shape):
    """All maintenance windows."""

    windows: list[WindowShape]


def schedule_shape(state: ScheduleState, now: datetime) -> ScheduleShape:
    """Show a schedule."""
    plan = state.plan
    return ScheduleShape(
        name=state.name,
        kind=plan.kind,
        queue=plan.job.queue,
        args=msgspec.json.decode(covered_json(plan.job.payload)),
        times=plan.times.describe(),
        cron=plan.times.cron,
        every_ms=plan.times.every_ms,
        tz=plan.times.hours.tz,
        overlap=plan.overlap,
        missed=plan.missed,
        enabled=plan.enabled,
        withdrawn=state.is_withdrawn,
        origin=state.origin,
        changed=list(state.changed),
        changed_by=state.changed_by,
        last_fire=state.last_fire,
        next_fire=next(iter(state.following(now, 1)), None),
    )


def fire_shape(row: FireRow) -> FireShape:
    """Show what came of one time."""
    return FireShape(
        schedule=row.schedule,
        time=row.nominal,
        outcome=row.outcome,
        job=None if row.job_id is None else public_id.encode(row.job_id),
        note=row.note,
        recorded_at=row.at,
    )


def window_shape(name: str, window: Maintenance, now: datetime) -> WindowShape:
    """Show a maintenance window."""
    return WindowShape(name=name, hours=window.describe(), holds_until=window.holds_at(now))
