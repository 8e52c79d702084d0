"""How long jobs wait: the heads of lanes, broken promises, and how many workers follow."""

import logging
from datetime import datetime, timedelta

import pytest

from holdfast.client.subscription import read_filter
from holdfast.errors import DataRefused
from holdfast.events import EventType
from holdfast.job import JobState
from holdfast.resources import job_rows
from holdfast.rollup import Rollup, bucket
from holdfast.services.lane_counts import LaneCountsService
from holdfast.services.sla import SlaService
from holdfast.stores.alarms import Alarm
from holdfast.stores.sla import LaneHead, Look, QueuePolicy, SlaRow, TuningRow
from holdfast.stores.store import Store
from holdfast.worker.processors import Processors
from holdfast.worker.tuning import Tuner
from tests.support import outbox, raw
from tests.support.builders import claim, enqueue, enqueue_many, register
from tests.support.clock import Clock

MINUTE = 60_000


async def publish(store: Store, **queues: str) -> None:
    """Say what holds for queues."""
    for name, definition in queues.items():
        await store.resume_queue(name)
        await raw.execute(store, f"UPDATE holdfast.queues SET definition = '{definition}' WHERE name = '{name}'")


async def started(store: Store, jobs: int, wait_ms: int, queue: str = "default") -> None:
    """Let handlers have begun after a wait."""
    await store.finish_jobs([], rollups=[Rollup(queue, "work", JobState.COMPLETED, jobs, {bucket(wait_ms): jobs}, {})])


def a_look(*, is_late: bool, queue: str = "default", sla_ms: int | None = 1) -> Look:
    """A look that found something."""
    return Look(queue=queue, sla_ms=sla_ms, p95_ms=None, starts=0, oldest_ms=5, waiting=1, is_late=is_late)


# ---- heads of lanes --------------------------------------------------------------------------------------------------


async def test_the_first_job_of_every_lane_is_told_with_its_wait(store: Store, clock: Clock) -> None:
    await enqueue(store, priority=9)
    await clock.advance(seconds=5)
    await enqueue_many(store, 3)
    await enqueue(store, queue="other", priority=0)
    await enqueue(store, queue="elsewhere")
    await enqueue(store, delay_ms=1_000, priority=1)
    await clock.advance(seconds=2)
    heads = await store.lane_heads(["default", "other", "none"])
    assert sorted(heads, key=lambda head: (head.waited_ms, head.queue)) == [
        LaneHead("default", 5, 2_000),
        LaneHead("other", 0, 2_000),
        LaneHead("default", 9, 7_000),
    ]


async def test_a_paused_queue_has_no_heads(store: Store) -> None:
    await enqueue(store)
    await store.pause_queue("default", actor=None, reason=None)
    assert await store.lane_heads(["default"]) == []
    await store.resume_queue("default")
    assert len(await store.lane_heads(["default"])) == 1


# ---- waits -----------------------------------------------------------------------------------------------------------


async def test_whoever_is_due_waits_whatever_its_state(store: Store, clock: Clock) -> None:
    (held,) = await enqueue_many(store, 1, queue="h")
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'held', limit_key = 'a:b' WHERE id = {held}")
    await enqueue(store, queue="s", delay_ms=1_000)
    await enqueue(store, queue="q", priority=10)
    await enqueue(store, queue="later", delay_ms=60_000)
    await clock.advance(seconds=9)
    found = await store.read_waits(["h", "s", "q", "later", "none"], MINUTE)
    assert [(waits.queue, waits.oldest_ms) for waits in found] == [
        ("h", 9_000),
        ("s", 8_000),
        ("q", 9_000),
        ("later", None),
        ("none", None),
    ]


async def test_a_pause_is_no_waiting(store: Store, clock: Clock) -> None:
    await enqueue(store)
    await clock.advance(seconds=5)
    await store.pause_queue("default", actor=None, reason=None)
    await clock.advance(seconds=100)
    assert (await store.read_waits(["default"], MINUTE))[0].oldest_ms is None
    await store.resume_queue("default")
    await clock.advance(seconds=3)
    assert (await store.read_waits(["default"], MINUTE))[0].oldest_ms == 3_000
    await store.resume_queue("default")  # which was not paused: nothing begins anew
    assert (await store.read_waits(["default"], MINUTE))[0].oldest_ms == 3_000


async def test_waits_of_the_last_while_are_merged(store: Store, clock: Clock) -> None:
    await started(store, 3, 100)
    await clock.advance(minutes=10)
    await started(store, 5, 100)
    await started(store, 2, 9_000)
    await started(store, 7, 100, queue="other")
    (found,) = await store.read_waits(["default"], 2 * MINUTE)
    assert found.wait == {bucket(100): 5, bucket(9_000): 2}


# ---- promises --------------------------------------------------------------------------------------------------------


async def test_the_second_late_look_breaks_a_promise_and_five_minutes_mend_it(store: Store, clock: Clock) -> None:
    (first,) = await store.look_at_waits([a_look(is_late=True)])
    assert first.breached_at is None
    broken_at = await clock.advance(seconds=10)
    (second,) = await store.look_at_waits([a_look(is_late=True)])
    assert (second.breached_at, second.ended_at, second.told_at) == (broken_at, None, None)
    assert await store.tell_breach(second)
    assert not await store.tell_breach(second), "it was told"
    late_at = await clock.advance(seconds=10)
    assert [row.breached_at for row in await store.look_at_waits([a_look(is_late=True)])] == [broken_at]
    while clock.now < late_at + timedelta(minutes=5) - timedelta(seconds=10):
        await clock.advance(seconds=10)
        (row,) = await store.look_at_waits([a_look(is_late=False)])
        assert (row.breached_at, row.ended_at) == (broken_at, None)
        assert row.told_at is not None
    ended_at = await clock.advance(seconds=10)
    (mended,) = await store.look_at_waits([a_look(is_late=False)])
    assert (mended.breached_at, mended.ended_at, mended.told_at) == (broken_at, ended_at, None)
    assert await store.tell_breach(mended)
    await clock.advance(seconds=10)
    await store.look_at_waits([a_look(is_late=True)])
    again_at = await clock.advance(seconds=10)
    (row,) = await store.look_at_waits([a_look(is_late=True)])
    assert (row.breached_at, row.ended_at, row.told_at) == (again_at, None, None)


async def test_a_look_right_after_another_counts_for_nothing(store: Store, clock: Clock) -> None:
    await store.look_at_waits([a_look(is_late=True)])
    await clock.advance(seconds=4)
    (row,) = await store.look_at_waits([a_look(is_late=True)])
    assert row.breached_at is None, "two leaders looked, and nothing was late twice"


async def test_a_late_look_alone_breaks_nothing(store: Store, clock: Clock) -> None:
    for is_late in (True, False, True, False):
        await clock.advance(seconds=10)
        (row,) = await store.look_at_waits([a_look(is_late=is_late)])
        assert row.breached_at is None


async def test_a_queue_that_is_watched_no_more_is_forgotten(store: Store) -> None:
    await store.look_at_waits([a_look(is_late=False), a_look(is_late=False, queue="other")])
    rows = await store.look_at_waits([a_look(is_late=False, queue="other")])
    assert [row.queue for row in rows] == ["other"]
    assert await store.look_at_waits([]) == []


async def test_a_telling_of_another_breach_is_not_taken_for_this_one(store: Store, clock: Clock) -> None:
    await store.look_at_waits([a_look(is_late=True)])
    await clock.advance(seconds=10)
    (row,) = await store.look_at_waits([a_look(is_late=True)])
    assert row.breached_at is not None
    other = SlaRow(
        **{name: getattr(row, name) for name in row.__struct_fields__ if name != "breached_at"},
        breached_at=row.breached_at - timedelta(minutes=1),
    )
    assert not await store.tell_breach(other)
    assert (await store.list_waits())[0].told_at is None


async def alarms(store: Store) -> list[tuple[str, str]]:
    """Read the inbox of alarms, by fetching what escalation would take."""
    found: list[tuple[str, str]] = []
    if hasattr(store, "fetch_sql"):
        found = [
            (row[0], row[1]) for row in await store.fetch_sql("SELECT queue, title FROM holdfast.alarms ORDER BY id")
        ]
    else:
        reader = store.connection  # type: ignore[attr-defined] # of the store on SQLite
        found = await reader.read(
            lambda connection, _: connection.execute("SELECT queue, title FROM holdfast_alarms ORDER BY id").fetchall()
        )
    return found


async def test_a_queue_whose_workers_are_all_dead_breaks_its_promise(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.execute(store, "DELETE FROM holdfast.alarms")
    await publish(store, default='{"sla_ms": 30000, "escalation": "ops"}', idle='{"sla_ms": 30000}')
    await raw.execute(store, "UPDATE holdfast.queues SET escalation = 'ops'")
    await enqueue_many(store, 4)
    promises, gauging = SlaService(store), LaneCountsService(store)
    caplog.set_level(logging.INFO, "holdfast")
    for _ in range(6):  # nobody starts anything: no roll-up tells of it
        await clock.advance(seconds=10)
        await gauging.run(1)
        await promises.run(1)
    found = {row.queue: row for row in await store.list_waits()}
    assert (found["default"].oldest_ms, found["default"].waiting, found["default"].p95_ms) == (60_000, 4, None)
    assert found["default"].breached_at == clock.now - timedelta(seconds=10)
    assert found["idle"].breached_at is None
    title = "queue default: jobs wait for longer than 30 s (the oldest waits for 50.0 s)"
    assert await alarms(store) == [("default", title)], "told once"
    worker = await register(store)
    await claim(store, worker)
    for _ in range(32):
        await clock.advance(seconds=10)
        await promises.run(1)
    assert len(await alarms(store)) == 1
    assert (await store.list_waits())[0].ended_at is not None
    assert [record.message for record in caplog.records if "default" in record.message] == [
        title,
        "queue default: jobs wait no longer than 30 s again",
    ]


async def test_those_who_watch_hear_of_a_breach_and_of_its_end_once(store: Store, clock: Clock) -> None:
    await outbox.forget(store)
    await publish(store, default='{"sla_ms": 30000}', idle='{"sla_ms": 30000}')
    await enqueue(store)
    await store.watch("test", 60 * MINUTE)
    promises = SlaService(store)
    for _ in range(6):
        await clock.advance(seconds=10)
        await promises.run(1)
    broken_at = clock.now - timedelta(seconds=10)
    await claim(store, await register(store, lease_ms=60 * MINUTE))
    for _ in range(40):
        await clock.advance(seconds=10)
        await promises.run(1)
    broken, kept = await store.read_events(0, [], 100)
    assert (broken.type, broken.at, kept.type) == (EventType.SLA_BREACHED, broken_at, EventType.SLA_KEPT)
    said = {"sla_ms": 30_000, "oldest_ms": 50_000, "waiting": 0}
    assert {name: value for name, value in broken.data.items() if name != "since"} == said
    assert datetime.fromisoformat(broken.data["since"]) == broken_at
    assert "oldest_ms" not in kept.data
    for event in (broken, kept):
        assert (event.queue, event.job_id, event.public_id, event.kind, event.state) == ("default", 0, "", "", None)
        shown = job_rows.event(event)
        assert shown.id is None
        assert read_filter(queues=["default"]).fits(shown)
        assert read_filter(types=["queue:sla:breached", "queue:sla:kept"]).fits(shown)
        assert not read_filter(jobs=[1]).fits(shown)
    stored = await raw.column(store, "SELECT kind FROM holdfast.events ORDER BY seq")
    assert stored == ["job:queue:sla:breached", "job:queue:sla:kept"], "which release 0.6 passes over"


async def test_while_nobody_watches_a_breach_is_no_event(store: Store, clock: Clock) -> None:
    await outbox.forget(store)
    await store.look_at_waits([a_look(is_late=True)])
    await clock.advance(seconds=10)
    (row,) = await store.look_at_waits([a_look(is_late=True)])
    assert await store.tell_breach(row)
    assert await store.read_events(0, [], 100) == []


async def test_a_breach_is_told_whole_or_not_at_all(store: Store, clock: Clock) -> None:
    await outbox.forget(store)
    await store.watch("test", 60 * MINUTE)
    await store.look_at_waits([a_look(is_late=True)])
    await clock.advance(seconds=10)
    (row,) = await store.look_at_waits([a_look(is_late=True)])
    with pytest.raises(DataRefused):
        await store.tell_breach(row, Alarm(source="sla", title="late\x00", policy="ops"))
    assert (await store.list_waits())[0].told_at is None
    assert await store.read_events(0, [], 100) == []


@pytest.mark.parametrize("jobs, wait_ms, is_broken", [(20, 50_000, True), (19, 50_000, False), (40, 25_000, False)])
async def test_waits_of_twenty_starts_break_a_promise(
    store: Store, clock: Clock, jobs: int, wait_ms: int, is_broken: bool
) -> None:
    await publish(store, default='{"sla_ms": 30000}')
    await started(store, jobs, wait_ms)
    for _ in range(3):
        await clock.advance(seconds=10)
        await SlaService(store).run(1)
    (row,) = await store.list_waits()
    assert (row.breached_at is not None) is is_broken
    assert row.starts == jobs


async def test_where_nothing_is_promised_nothing_is_looked_at(store: Store) -> None:
    await publish(store, default='{"workers": 4}')
    await enqueue(store)
    assert (await SlaService(store).run(1)).scanned == 0
    assert await store.list_waits() == []


# ---- policies and workers --------------------------------------------------------------------------------------------


async def test_what_is_published_of_queues_is_read_with_what_became_of_them(store: Store, clock: Clock) -> None:
    await publish(store, a='{"sla_ms": 5, "workers": 2, "max_workers": 9, "age_share": 4, "colour": "red"}')
    await store.pause_queue("b", actor=None, reason=None)
    await store.pause_queue("c", actor=None, reason=None)
    await store.resume_queue("c")
    assert await store.queue_policies() == [
        QueuePolicy(queue="a", is_published=True, sla_ms=5, workers=2, max_workers=9, age_share=4),
        QueuePolicy(queue="b", is_paused=True),
        QueuePolicy(queue="c", resumed_at=clock.now),
    ]


async def test_what_living_instances_say_of_their_workers_is_kept(store: Store, clock: Clock) -> None:
    def said(workers: int, queue: str = "a") -> TuningRow:
        return TuningRow(instance="i", queue=queue, workers=workers, lowest=1, highest=9, reason=f"{workers}, because")

    worker = await register(store, instance="i")
    await store.report_tunings("i", [said(2), said(4, "b")])
    await store.report_tunings("gone", [said(3)])
    first = clock.now
    await clock.advance(seconds=1)
    await store.report_tunings("i", [said(2)])
    (kept,) = await store.list_tunings()
    assert (kept.queue, kept.workers, kept.reason, kept.changed_at) == ("a", 2, "2, because", first)
    await store.report_tunings("i", [said(3)])
    assert [(kept.workers, kept.changed_at) for kept in await store.list_tunings()] == [(3, clock.now)]
    assert await store.prune_tunings(10) == 1, "of the instance that has no worker"
    await store.retire_worker(worker)
    assert await store.list_tunings() == []
    assert await store.prune_tunings(10) == 1


class Resting(Processors):
    """Processors that have time."""

    def busy(self) -> float:
        """Not at all."""
        return 0.1


async def test_a_burst_grows_the_workers_of_an_instance_and_rest_shrinks_them(store: Store, clock: Clock) -> None:
    await publish(store, default='{"sla_ms": 20000, "workers": 2, "max_workers": 8}')
    worker = await register(store, instance="i", lease_ms=3_600_000)
    applied: list[dict[str, int]] = []
    tuner = Tuner(store, "i", queues=["default"], bounds={}, total=20, apply=applied.append, processors=Resting())
    await enqueue_many(store, 10)
    await clock.advance(seconds=11)
    for _ in range(6):
        await SlaService(store).run(1)
        await tuner.look()
        await clock.advance(seconds=10)
    assert [bounds["default"] for bounds in applied] == [3, 4, 5, 7, 8]
    (told,) = await store.list_tunings()
    assert told.reason == "8, its maximum: jobs waited for 61.0 s, which is more than half of the SLA of 20 s"
    await claim(store, worker)
    for _ in range(22):
        await SlaService(store).run(1)
        await tuner.look()
        await clock.advance(seconds=10)
    assert tuner.bounds == {"default": 2}
    (told,) = await store.list_tunings()
    assert told.reason == "2, its minimum, down from 3: no job has waited for 2 minutes"
