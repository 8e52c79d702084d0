"""Reads the rows of schedules, of their fires and of maintenance windows as resources."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.cron import Times, read_times
from holdfast.hours import Maintenance, days_text, window_texts
from holdfast.payload import covered_json
from holdfast.resources.schedule import DateRange, MaintenanceWindow, ScheduleFire, ScheduleInfo
from holdfast.schedules import read_plan
from holdfast.stores.cluster import FireRow, ScheduleRow


def schedule_info(row: ScheduleRow) -> ScheduleInfo:
    """Put together what is known of one schedule."""
    plan, changed = read_plan(row.definition, row.override), msgspec.json.decode(row.override, type=dict[str, Any])
    times, hours = plan.times, plan.times.hours
    is_active = plan.enabled and row.withdrawn_at is None
    return ScheduleInfo(
        name=row.name,
        kind=plan.kind,
        queue=plan.job.queue,
        args=msgspec.json.decode(covered_json(plan.job.payload)),
        times=times.describe(),
        cron=times.cron,
        every_ms=times.every_ms,
        window=None if hours.window is None else window_texts(hours.window),
        days=None if hours.days is None else days_text(hours.days),
        tz=hours.tz,
        exclude=[DateRange(first=first, last=last) for first, last in hours.exclude],
        jitter_ms=times.jitter_ms,
        overlap=plan.overlap,
        missed=plan.missed,
        most_missed=plan.most_missed,
        grace_ms=plan.grace_ms,
        enabled=plan.enabled,
        withdrawn=row.withdrawn_at is not None,
        origin=row.origin,
        changed=sorted(changed),
        changed_by=row.changed_by,
        last_fire=row.last_fire,
        next_fire=times.next_after(datetime.now(UTC)) if is_active else None,
        due_at=row.next_fire,
    )


def times_of(schedule: ScheduleInfo) -> Times:
    """Read the times of a schedule, to work out when it fires."""
    return read_times(
        schedule.cron,
        None if schedule.every_ms is None else timedelta(milliseconds=schedule.every_ms),
        None if schedule.window is None else (schedule.window[0], schedule.window[1]),
        schedule.days,
        schedule.tz,
        exclude=[(days.first, days.last) for days in schedule.exclude],
        jitter=timedelta(milliseconds=schedule.jitter_ms) if schedule.jitter_ms else None,
    )


def following(schedule: ScheduleInfo, count: int) -> list[datetime]:
    """Work out the next times of a schedule; one that does not fire has none."""
    found: list[datetime] = []
    times, moment = times_of(schedule), datetime.now(UTC)
    while schedule.is_active and len(found) < count and (fire := times.next_after(moment)) is not None:
        found.append(fire)
        moment = fire
    return found


def schedule_fire(row: FireRow) -> ScheduleFire:
    """Put together what came of one time."""
    return ScheduleFire(
        schedule=row.schedule,
        time=row.nominal,
        outcome=row.outcome,
        job=None if row.job_id is None else public_id.encode(row.job_id),
        note=row.note,
        recorded_at=row.at,
    )


def maintenance_window(name: str, maintenance: Maintenance) -> MaintenanceWindow:
    """Put together what is known of one maintenance window."""
    holds_until = maintenance.holds_at(datetime.now(UTC))
    return MaintenanceWindow(name=name, hours=maintenance.describe(), holds_until=holds_until)
