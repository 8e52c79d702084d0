"""Schedules and services of an app whose worker runs: fired by whoever leads, changed while they run."""

import itertools
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import ConfigError, Conflict, Context, Holdfast, InvalidValue, Pipeline, Service, phase
from holdfast.client.schedule_rows import times_of
from holdfast.errors import ScheduleNotFound
from holdfast.job import JobState
from holdfast.resources.schedule import ScheduleFire
from holdfast.schedules import Schedule
from holdfast.services import sweeps
from holdfast.services.leader import LEASE
from tests.support.clock import Clock
from tests.support.wait import until
from tests.support.workers import MakeApp, working
from tests.worker.scheduling import Seen, emptied

ALERT = {"schedules": Service(interval="10ms"), "promotion": Service(interval="10ms")}


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an open app on each store in turn, without schedules."""
    async with make_app(services=ALERT) as app:
        await emptied(app)
        yield app


@pytest.fixture
async def clock(app: Holdfast) -> Clock:
    """Give the clock of the store, which stands still: a schedule fires when the test moves it."""
    found = Clock(app.store)
    await found.stop()
    return found


@pytest.fixture
def seen() -> Seen:
    return Seen()


async def fired(app: Holdfast, name: str, *outcomes: str) -> list[ScheduleFire]:
    """Wait until a schedule has a fire of one of these outcomes, and read all."""
    found: list[ScheduleFire] = []

    async def is_there() -> bool:
        found[:] = await app.schedules.fires(name, 100)
        return any(fire.outcome in outcomes for fire in found)

    await until(is_there, f"{name} has {outcomes}")
    return found


# ---- in the program ------------------------------------------------------------------------------------------------


async def test_a_task_runs_at_its_times_with_its_arguments(app: Holdfast, clock: Clock, seen: Seen) -> None:
    @app.schedule(every="1s", args={"who": "ada"}, overlap="queue")
    @app.task
    async def greet(ctx: Context, who: str) -> None:
        seen.add(who, ctx)

    began = clock.now
    async with working(app):
        for count in (1, 2, 3):
            await clock.advance(seconds=1)
            await seen.reach(count)
    assert set(seen.words()) == {"ada"}
    assert [ctx.fire_time for _, ctx in seen.runs] == [began + timedelta(seconds=count) for count in (1, 2, 3)]
    assert {ctx.job.schedule for _, ctx in seen.runs} == {"greet"}
    fires = await app.schedules.fires("greet", 100)
    assert {fire.job for fire in fires} == {ctx.job.id for _, ctx in seen.runs}
    assert {fire.outcome for fire in fires} == {"enqueued"}


async def test_a_job_of_nobodys_schedule_has_no_fire_time(app: Holdfast, seen: Seen) -> None:
    @app.task
    async def greet(ctx: Context) -> None:
        seen.add("", ctx)

    await greet.enqueue()
    await app.run_worker(until="empty")
    assert [ctx.fire_time for _, ctx in seen.runs] == [None]


async def test_a_kind_has_any_number_of_schedules_by_name(app: Holdfast, clock: Clock, seen: Seen) -> None:
    @app.schedule(every="1s", args={"who": "bob"}, name="bobs")
    @app.schedule(every="1s", args={"who": "ada"})
    @app.task
    async def greet(ctx: Context, who: str) -> None:
        seen.add(who, ctx)

    app.schedule_definitions.add(Schedule(name="carls", kind="greet", every="1s", args={"who": "carl"}))
    async with working(app):
        await clock.advance(seconds=1)
        for who in ("ada", "bob", "carl"):
            await seen.reach(1, who)
    assert {(word, ctx.job.schedule) for word, ctx in seen.runs} == {
        ("ada", "greet"),
        ("bob", "bobs"),
        ("carl", "carls"),
    }


async def test_schedules_of_the_configuration_run_pipelines_too(make_app: MakeApp, seen: Seen) -> None:
    nightly = Schedule(name="nightly", kind="Build", every="1s", args={"what": "a"})
    async with make_app(schedules=[nightly], services=ALERT) as app:
        await emptied(app)
        clock = Clock(app.store)
        await clock.stop()

        @app.task(kind="Build")
        class Build(Pipeline):
            what: str

            @phase
            async def compile(self, ctx: Context) -> None:
                seen.add(self.what, ctx)

        async with working(app):
            await clock.advance(seconds=1)
            await seen.reach(1, "a")
        assert {ctx.job.kind for _, ctx in seen.runs} == {"build"}


def test_what_a_program_cannot_mean_is_refused(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()

    @app.schedule(every="1s")
    @app.task
    async def greet(who: str = "") -> None: ...

    with pytest.raises(ConfigError, match="defined twice"):
        app.schedule(every="5s")(greet)
    with pytest.raises(ConfigError, match=r"write it above @app\.task"):
        app.schedule(every="5s")(lambda: None)


async def test_an_argument_that_the_task_does_not_have_is_refused_at_the_start(memory_app: Holdfast) -> None:
    @memory_app.schedule(every="1s", args={"whom": "ada"})
    @memory_app.task
    async def greet(who: str) -> None: ...

    with pytest.raises(InvalidValue, match="whom"):
        await memory_app.run_worker(until="empty")


async def test_what_fires_elsewhere_is_published_disabled(
    app: Holdfast, clock: Clock, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SCHEDULES_ELSEWHERE", "Theirs, other")

    @app.schedule(every="1s", args={"who": "theirs"}, name="theirs", overlap="queue")
    @app.schedule(every="1s", args={"who": "ours"}, name="ours", overlap="queue")
    @app.task
    async def greet(ctx: Context, who: str) -> None:
        seen.add(who, ctx)

    async with working(app):
        for count in (1, 2):
            await clock.advance(seconds=1)
            await seen.reach(count, "ours")
        state = {one.name: (one.is_active, one.changed) for one in await app.schedules.list()}
    assert state == {"ours": (True, []), "theirs": (False, [])}
    assert "theirs" not in seen.words()


# ---- at run time ---------------------------------------------------------------------------------------------------


async def test_a_schedule_is_made_changed_and_deleted_while_workers_run(
    app: Holdfast, clock: Clock, seen: Seen
) -> None:
    @app.task
    async def greet(ctx: Context, who: str) -> None:
        seen.add(who, ctx)

    async with working(app):
        await app.schedules.create("often", greet.call(who="ada"), every="1s", overlap="queue", actor="eve")
        with pytest.raises(Conflict, match="there is a schedule 'often' already"):
            await app.schedules.create("often", greet.call(who="bob"), every="1s")
        await clock.advance(seconds=1)
        await seen.reach(1, "ada")
        state = await app.schedules.edit("often", call=greet.call(who="bob"), actor="eve")
        assert (state.changed, state.changed_by, state.origin) == (["job"], "eve", "stored")
        await clock.advance(seconds=1)
        await seen.reach(1, "bob")
        await app.schedules.edit("often", cron="0 0 1 1 *", tz="Europe/Berlin")
        (state,) = await app.schedules.list()
        assert times_of(state).next_after(datetime(2026, 6, 1, tzinfo=UTC)) == datetime(2026, 12, 31, 23, tzinfo=UTC)
        await app.schedules.delete("often")
        assert await app.schedules.list() == []
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'often'; known are none"):
            await app.schedules.delete("often")


async def test_a_schedule_is_disabled_enabled_and_reset_while_workers_run(
    app: Holdfast, clock: Clock, seen: Seen
) -> None:
    @app.schedule(every="1s", overlap="queue", missed="all")
    @app.task
    async def greet(ctx: Context) -> None:
        seen.add("", ctx)

    async with working(app) as work:
        await clock.advance(seconds=1)
        await seen.reach(1)
        state = await app.schedules.disable("greet", actor="eve")
        assert (state.is_active, state.changed, state.changed_by) == (False, ["enabled"], "eve")
        assert await app.schedules.next("greet", 3) == []
        before = await app.schedules.fires("greet", 100)
        enabled_at = await clock.advance(seconds=2)
        await work.moments.next("served", service="schedules", times=2)
        assert await app.schedules.fires("greet", 100) == before
        assert (await app.schedules.enable("greet")).is_active
        await clock.advance(seconds=1)
        await seen.reach(len(before) + 1)
        fires = await app.schedules.fires("greet", 100)
        assert [fire for fire in fires if fire not in before and fire.time < enabled_at] == []
        assert (await app.schedules.reset("greet")).changed == []
        with pytest.raises(Conflict, match="apps define it"):
            await app.schedules.delete("greet")


async def test_a_schedule_runs_by_hand_at_once_whether_it_is_enabled_or_not(app: Holdfast, seen: Seen) -> None:
    @app.schedule(cron="0 0 1 1 *", enabled=False, args={"who": "ada"})
    @app.task
    async def greet(ctx: Context, who: str) -> None:
        seen.add(who, ctx)

    async with working(app):
        await fired_by_hand(app)
        await seen.reach(2)
    assert {fire.outcome for fire in await app.schedules.fires("greet", 100)} == {"by_hand"}
    assert all(ctx.fire_time is not None for _, ctx in seen.runs)


async def fired_by_hand(app: Holdfast) -> None:
    """Run the schedule twice, once it is published."""

    async def is_known() -> bool:
        return bool(await app.schedules.list())

    await until(is_known, "the schedule is published")
    assert await app.schedules.run("greet") != await app.schedules.run("Greet")


async def test_no_schedule_fires_while_it_is_closed(app: Holdfast, clock: Clock, seen: Seen) -> None:
    @app.schedule(every="1s", overlap="queue")
    @app.task
    async def greet(ctx: Context) -> None:
        seen.add("", ctx)

    async with working(app):
        await clock.advance(seconds=1)
        await seen.reach(1)
        await app.schedules.start_maintenance("move", days="mon-sun", actor="eve", reason="the store moves")
        assert [window.name for window in await app.schedules.maintenance()] == ["move"]
        await clock.advance(seconds=1)
        (closed, *_) = await fired(app, "greet", "maintenance")
        assert (closed.job, (closed.note or "").startswith("closed until")) == (None, True)
        assert len(seen.runs) == 1
        await app.schedules.end_maintenance("move")
        with pytest.raises(ScheduleNotFound, match="there is no maintenance window 'move'"):
            await app.schedules.end_maintenance("move")
        await clock.advance(seconds=1)
        await seen.reach(2)
    assert await app.schedules.maintenance() == []


async def test_an_unknown_schedule_is_named_with_the_known_ones(memory_app: Holdfast) -> None:
    @memory_app.task
    async def greet() -> None: ...

    await memory_app.schedules.create("nightly", greet.call(), cron="0 3 * * *")
    for verb in (memory_app.schedules.enable, memory_app.schedules.disable, memory_app.schedules.run):
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'weekly'; known are nightly"):
            await verb("weekly")
    with pytest.raises(InvalidValue, match="makes jobs of kind 'greet'"):
        await memory_app.schedules.edit("nightly", call=other_call(memory_app))
    with pytest.raises(InvalidValue, match="grace: expected at least 20 s"):
        await memory_app.schedules.edit("nightly", grace="1s")


def other_call(app: Holdfast) -> Any:
    @app.task
    async def other() -> None: ...

    return other.call()


# ---- promptness ----------------------------------------------------------------------------------------------------


@pytest.mark.real_time  # how late jobs start
async def test_a_due_job_starts_within_milliseconds_also_one_that_is_due_earlier(app: Holdfast) -> None:
    started: dict[int, float] = {}

    @app.task
    async def note(ctx: Context) -> None:
        started[ctx.job.number] = time.time()

    async with working(app):
        await note.using(delay="1h").enqueue()
        handles = [await note.using(delay=f"{ms}ms").enqueue() for ms in (900, 800, 700, 600, 500, 400, 300)]
        await until(lambda: len(started) == len(handles), "all have run")
        jobs = [await handle.get() for handle in handles]
        late = [started[job.number] - job.run_at.timestamp() for job in jobs]
    assert min(late) >= 0
    assert sorted(late)[len(late) // 2] < 0.1  # the others may meet a busy machine


async def test_without_a_leader_schedules_fire_two_seconds_late_and_due_jobs_in_time(
    make_shared_app: MakeApp, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "SWEEP_S", 0.02)
    async with make_shared_app(services=ALERT) as app:
        await emptied(app)
        clock = Clock(app.store)
        await clock.stop()

        @app.schedule(every="1s", overlap="queue")
        @app.task
        async def greet(ctx: Context) -> None:
            seen.add("greet", ctx)

        @app.task
        async def note(ctx: Context) -> None:
            seen.add("note", ctx)

        async def is_looked_at() -> bool:
            return any(state.due_at for state in await app.schedules.list())

        term = await app.store.lead(LEASE, "somebody who does nothing", None, 600_000)
        async with working(app):
            await until(is_looked_at, "the worker knows when the schedule fires first")
            await note.using(delay="1s").enqueue()
            await clock.advance(seconds=1)
            await seen.reach(1, "note")
            assert seen.words() == ["note"]
            await clock.advance(seconds=2)
            await seen.reach(3, "greet")
        fires = sorted(await app.schedules.fires("greet", 100), key=lambda fire: fire.time)
        lags = [(fire.recorded_at - fire.time).total_seconds() for fire in fires]
        assert lags == [2, 1, 0]
        assert {later.time - fire.time for fire, later in itertools.pairwise(fires)} == {timedelta(seconds=1)}
        (promoted,) = [ctx.job for word, ctx in seen.runs if word == "note"]
        assert promoted.state is JobState.RUNNING
        (leader,) = await app.services.leaders()
        assert (leader.holder, leader.term) == ("somebody who does nothing", term)
