"""Firing by the store's clock: each nominal time once, after outages as the schedule says, whoever fires."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.delivery.in_store import InStore
from holdfast.errors import StoreUnavailable
from holdfast.hours import read_maintenance
from holdfast.job import JobState
from holdfast.schedules import Schedule, plan_of
from holdfast.services.schedules import SchedulesService
from holdfast.services.service import Round
from holdfast.stores.cluster import ScheduleRow
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.builders import new_job, read
from tests.support.clock import START, Clock

BATCH = 100
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
async def _without_schedules(store: Store) -> None:
    for table in ("schedules", "fires", "overrides"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")


@pytest.fixture
async def delivery(store: Store) -> AsyncIterator[InStore]:
    found = InStore(store)
    yield found
    await found.close()


@pytest.fixture
async def clock(store: Store) -> Clock:
    """Stop the clock half an hour past a whole hour, so that it is known how many hours begin."""
    stopped = Clock(store)
    stopped.now = START.replace(minute=30, second=0)
    await stopped.stop()
    return stopped


async def define(store: Store, name: str = "hourly", **options: Any) -> None:
    given: dict[str, Any] = {"cron": "0 * * * *"} if "every" not in options else {}
    schedule = Schedule(name=name, kind="work", **(given | {"overlap": "queue"} | options))
    plan = msgspec.json.encode(plan_of(schedule, new_job(0))).decode()
    await store.define_schedules({name: plan}, [])


async def row(store: Store, name: str = "hourly") -> ScheduleRow:
    (found,) = [one for one in (await store.read_schedules())[1] if one.name == name]
    return found


async def outcomes(store: Store, name: str = "hourly") -> list[tuple[Any, str]]:
    return [(fire.nominal, fire.outcome) for fire in reversed(await store.list_fires(name, 1_000))]


async def test_a_schedule_fires_at_its_time_and_sleeps_until_the_next(
    store: Store, clock: Clock, delivery: InStore
) -> None:
    await define(store)
    firing = SchedulesService(store, delivery)
    assert await firing.run(BATCH) == Round(scanned=1, next_s=1_800.0)
    await clock.advance(minutes=30)
    assert await firing.run(BATCH) == Round(scanned=1, moved=1, next_s=3_600.0)
    assert await firing.run(BATCH) == Round(scanned=1, next_s=3_600.0)
    (fire,) = await store.list_fires("hourly", 10)
    assert fire.job_id is not None
    job = await read(store, fire.job_id)
    assert (job.state, job.fire_time, job.run_at) == (JobState.QUEUED, clock.now, clock.now)


@pytest.mark.parametrize("hours", [5, 25])
@pytest.mark.parametrize("missed", ["skip", "once", "all"])
async def test_after_an_outage_the_policy_counts(
    store: Store, clock: Clock, delivery: InStore, missed: str, hours: int
) -> None:
    await define(store, missed=missed)
    await SchedulesService(store, delivery).run(BATCH)
    begin = clock.now
    await clock.advance(hours=hours)
    await SchedulesService(store, delivery).run(BATCH)  # by a process that has just started
    await SchedulesService(store, delivery).run(BATCH)
    made = {"skip": 0, "once": 1, "all": hours}[missed]
    last = clock.now - timedelta(minutes=30)
    nominals = [last - ago * HOUR for ago in reversed(range(made))]
    if missed == "skip":
        assert await outcomes(store) == [(last, "missed")]
    else:
        assert await outcomes(store) == [(nominal, "enqueued") for nominal in nominals]
    ids = [fire.job_id for fire in reversed(await store.list_fires("hourly", 100)) if fire.job_id is not None]
    assert [(await read(store, job_id)).fire_time for job_id in ids] == nominals
    found = await row(store)
    assert found.last_fire == last
    assert last - begin == (hours - 0.5) * HOUR


async def test_what_is_late_at_a_change_of_leaders_always_runs(store: Store, clock: Clock, delivery: InStore) -> None:
    await define(store, "ticking", every="1s", missed="skip")
    await SchedulesService(store, delivery).run(BATCH)
    await clock.advance(seconds=11)  # until somebody else leads
    done = await SchedulesService(store, delivery).run(BATCH)
    assert (done.moved, done.lag_ms) == (11, 10_000)
    assert [outcome for _, outcome in await outcomes(store, "ticking")] == ["enqueued"] * 11


async def test_a_clock_that_goes_back_fires_nothing_twice(store: Store, clock: Clock, delivery: InStore) -> None:
    await define(store, "ticking", every="1s")
    firing = SchedulesService(store, delivery)
    await firing.run(BATCH)
    await clock.advance(seconds=3)
    assert (await firing.run(BATCH)).moved == 3
    await clock.advance(seconds=-90)
    assert (await firing.run(BATCH)).moved == 0
    assert (await SchedulesService(store, delivery).run(BATCH)).moved == 0
    await clock.advance(seconds=91)
    assert (await SchedulesService(store, delivery).run(BATCH)).moved == 1
    assert len(await outcomes(store, "ticking")) == 4


async def test_more_than_a_batch_goes_on_at_once_and_leaves_nothing_out(
    store: Store, clock: Clock, delivery: InStore
) -> None:
    await define(store, "ticking", every="1s", grace="5m")
    firing = SchedulesService(store, delivery)
    await firing.run(BATCH)
    begin = clock.now
    await clock.advance(seconds=25)
    rounds = [await firing.run(10) for _ in range(3)]
    assert [done.moved for done in rounds] == [10, 10, 5]
    assert [done.has_more for done in rounds] == [True, True, False]
    assert [nominal for nominal, _ in await outcomes(store, "ticking")] == [
        begin + timedelta(seconds=second) for second in range(1, 26)
    ]


async def test_jitter_delays_the_job_and_not_the_time(store: Store, clock: Clock, delivery: InStore) -> None:
    await define(store, jitter="10m")
    await SchedulesService(store, delivery).run(BATCH)
    nominal = await clock.advance(minutes=30)
    await SchedulesService(store, delivery).run(BATCH)
    (fire,) = await store.list_fires("hourly", 10)
    assert fire.nominal == nominal
    assert fire.job_id is not None
    job = await read(store, fire.job_id)
    assert job.fire_time == nominal
    assert nominal < job.run_at <= nominal + timedelta(minutes=10)
    assert job.state is JobState.SCHEDULED


async def test_nothing_fires_during_maintenance_nor_afterwards_for_it(
    store: Store, clock: Clock, delivery: InStore
) -> None:
    await define(store, missed="all")
    firing = SchedulesService(store, delivery)
    await firing.run(BATCH)
    closed = read_maintenance(dates=[(clock.now + timedelta(minutes=30)).date()])
    await store.set_override("maintenance.move", msgspec.json.encode(closed).decode(), actor=None, reason=None)
    nominal = await clock.advance(minutes=30)
    await firing.run(BATCH)
    assert await outcomes(store) == [(nominal, "maintenance")]
    await store.reset_override("maintenance.move")
    await clock.advance(minutes=1)
    await firing.run(BATCH)
    assert await outcomes(store) == [(nominal, "maintenance")]


async def test_maintenance_that_cannot_be_read_closes_nothing(store: Store, clock: Clock, delivery: InStore) -> None:
    await define(store)
    firing = SchedulesService(store, delivery)
    await firing.run(BATCH)
    await store.set_override("maintenance.move", "17", actor=None, reason=None)
    await clock.advance(minutes=30)
    assert (await firing.run(BATCH)).moved == 1


async def test_what_is_disabled_or_withdrawn_does_not_fire(store: Store, clock: Clock, delivery: InStore) -> None:
    for name in ("disabled", "withdrawn"):
        await define(store, name)
    await store.change_schedule("disabled", '{"enabled": false}', moves=True, actor=None)
    await store.define_schedules({"disabled": (await row(store, "disabled")).definition}, ["work"])
    await clock.advance(hours=2)
    assert await SchedulesService(store, delivery).run(BATCH) == Round(scanned=2)
    await store.change_schedule("disabled", '{"enabled": null}', moves=True, actor=None)
    assert (await SchedulesService(store, delivery).run(BATCH)).moved == 0  # from now on, not from when it was disabled
    await clock.advance(hours=1)
    assert (await SchedulesService(store, delivery).run(BATCH)).moved == 1


@pytest.mark.parametrize(
    "broken",
    ['{"times": {"cron": "0 * * * *", "hours": {"tz": "Mars/Phobos"}}}', '{"times": 5}', '{"times": {"cron": "x"}}'],
    ids=["an unknown zone", "no times", "no line"],
)
async def test_one_that_cannot_fire_keeps_no_other_from_firing(
    store: Store, clock: Clock, delivery: InStore, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        await define(store, name)
    await store.change_schedule("b", broken, moves=False, actor=None)
    firing = SchedulesService(store, delivery)
    await firing.run(BATCH)
    await clock.advance(minutes=30)
    done = await firing.run(BATCH)
    assert (done.scanned, done.moved, done.next_s) == (3, 2, 3_600.0)
    told = [record.getMessage() for record in caplog.records if "schedule b" in record.getMessage()]
    assert len(told) == 1
    await store.change_schedule("b", '{"times": null}', moves=False, actor=None)
    assert (await firing.run(BATCH)).moved == 1


async def test_the_backstop_fires_only_what_nobody_else_has_fired(
    store: Store, clock: Clock, delivery: InStore
) -> None:
    await define(store)
    leader, backstop = SchedulesService(store, delivery), SchedulesService(store, delivery, overdue_s=2.0)
    await leader.run(BATCH)
    await clock.advance(minutes=30, seconds=1)
    assert (await backstop.run(BATCH)).moved == 0
    await clock.advance(seconds=1)
    assert (await backstop.run(BATCH)).moved == 1
    assert (await leader.run(BATCH)).moved == 0


async def test_who_dies_between_two_commits_leaves_the_rest_due(
    store: Store, clock: Clock, delivery: InStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(store, every="1h", missed="all", most_missed=150)
    await clock.advance(hours=150)
    commits, fire_schedule = 0, store.fire_schedule

    async def once(*args: Any, **options: Any) -> Any:
        nonlocal commits
        commits += 1
        if commits > 1:
            message = "killed"
            raise StoreUnavailable(message)
        return await fire_schedule(*args, **options)

    monkeypatch.setattr(store, "fire_schedule", once)
    with pytest.raises(StoreUnavailable):
        await SchedulesService(store, delivery).run(1_000)
    monkeypatch.undo()
    assert len(await outcomes(store)) == 100
    await SchedulesService(store, delivery).run(1_000)  # at once, and not when the next hour begins
    assert len(await outcomes(store)) == 150
