"""What `--json` prints of schedules; the rules are those of `shapes`."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.client.schedules import ScheduleState
from holdfast.payload import covered_json
from holdfast.stores.cluster import FireRow


class ScheduleShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `schedules list --json`."""

    name: str
    kind: str
    queue: str
    args: msgspec.Raw
    times: str
    cron: str | None
    every_ms: int | None
    tz: str
    overlap: str
    missed: str
    enabled: bool
    withdrawn: bool
    origin: str
    changed: tuple[str, ...]
    changed_by: str | None
    last_fire: datetime | None
    next_fire: datetime | None


class FireShape(msgspec.Struct, frozen=True):
    """Each entry of `schedules fires --json`."""

    schedule: str
    time: datetime
    outcome: str
    job_id: str | None
    job_public_id: str | None
    note: str | None
    recorded_at: datetime


def schedules(states: Sequence[ScheduleState], now: datetime) -> list[ScheduleShape]:
    """Describe schedules."""
    return [
        ScheduleShape(
            name=state.name,
            kind=state.plan.kind,
            queue=state.plan.job.queue,
            args=msgspec.Raw(covered_json(state.plan.job.payload).encode()),
            times=state.plan.times.describe(),
            cron=state.plan.times.cron,
            every_ms=state.plan.times.every_ms,
            tz=state.plan.times.hours.tz,
            overlap=state.plan.overlap,
            missed=state.plan.missed,
            enabled=state.plan.enabled,
            withdrawn=state.is_withdrawn,
            origin=state.origin,
            changed=state.changed,
            changed_by=state.changed_by,
            last_fire=state.last_fire,
            next_fire=next(iter(state.following(now, 1)), None),
        )
        for state in states
    ]


def fires(rows: Sequence[FireRow]) -> list[FireShape]:
    """Describe what came of nominal times."""
    return [
        FireShape(
            row.schedule,
            row.nominal,
            row.outcome,
            None if row.job_id is None else str(row.job_id),
            None if row.job_id is None else public_id.encode(row.job_id),
            row.note,
            row.at,
        )
        for row in rows
    ]
