"""Schedules and their fires as tests speak of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job import NewJob
from holdfast.schedules import Outcome, Schedule, plan_of
from holdfast.stores.cluster import Fire, FireRow, ScheduleRow
from holdfast.stores.store import Store
from tests.support.builders import new_job


def plan(kind: str = "work", **options: Any) -> str:
    """What is kept of a schedule."""
    given: dict[str, Any] = {"every": "1m"} if "cron" not in options else {}
    schedule = Schedule(name=kind, kind=kind, **(given | options))
    return msgspec.json.encode(plan_of(schedule, new_job(0, kind=kind))).decode()


async def define(store: Store, *kinds: str, **plans: str) -> None:
    """Publish as a program that knows one kind, and others."""
    await store.define_schedules(plans, ["work", *kinds])


async def row(store: Store, name: str = "nightly") -> ScheduleRow:
    _, rows = await store.read_schedules()
    (found,) = [one for one in rows if one.name == name]
    return found


async def names(store: Store) -> list[str]:
    return [one.name for one in (await store.read_schedules())[1]]


async def fire(
    store: Store,
    *nominals: datetime,
    name: str = "nightly",
    version: int | None = None,
    overlap: str = "queue",
    next_fire: datetime | None = None,
    outcome: str = Outcome.ENQUEUED,
    **job: Any,
) -> list[FireRow]:
    """Fire nominal times as a leader does that has read the schedule just now, or earlier."""
    jobs: Sequence[NewJob | None] = [new_job(job_id, **job) for job_id in await store.take_ids(len(nominals))]
    if outcome not in (Outcome.ENQUEUED, Outcome.BY_HAND):
        jobs = [None] * len(nominals)
    fires = [Fire(nominal, outcome, one) for nominal, one in zip(nominals, jobs, strict=True)]
    known = (await row(store, name)).version if version is None else version
    return await store.fire_schedule(name, known, fires, overlap=overlap, next_fire=next_fire)


def job_of(recorded: list[FireRow]) -> int:
    (one,) = recorded
    assert one.job_id is not None
    return one.job_id
