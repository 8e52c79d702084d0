"""Where alarms come from besides failed jobs, and when everything is forgotten again."""

from datetime import timedelta

import msgspec

from holdfast import Holdfast
from holdfast.delivery.choosing import make_delivery
from holdfast.policies.escalation import Escalation
from holdfast.schedules import Schedule, plan_of
from holdfast.services.schedules import SchedulesService
from holdfast.stores.cluster import Fire
from holdfast.stores.store import Store
from holdfast.stores.values import QueueTerms
from tests.support import raw
from tests.support.builders import keeping, new_job
from tests.support.clock import Clock
from tests.support.staff import Staff, alarm

OPS = Escalation(name="ops", channels=["chat"])


def escalated() -> QueueTerms:
    return msgspec.structs.replace(keeping(1_000, 1_000, 1_000, 1_000), escalation="ops")


async def test_a_missed_schedule_is_told_once(store: Store, clock: Clock) -> None:
    staff = Staff(store, OPS)
    await store.define_queues({"default": escalated(), "quiet": keeping(1_000, 1_000, 1_000, 1_000)})
    for name, queue in (("nightly", "default"), ("unheard", "quiet")):
        plan = plan_of(Schedule(name=name, kind="work", every="1h"), new_job(1, kind="work", queue=queue))
        await store.define_schedules({name: msgspec.json.encode(plan).decode()}, [])
    _, rows = await store.read_schedules()
    for row in rows:
        fires = [
            Fire(clock.now - timedelta(hours=2), "missed", None, "2 times", is_missed=True),
            Fire(clock.now, "maintenance", None),
        ]
        for _ in range(2):  # whoever comes second records nothing, and tells nobody
            await store.fire_schedule(row.name, row.version, fires, overlap="skip", next_fire=None)
    await staff.escalating.run(500)
    (found,) = await staff.rows()
    assert (found.source, found.queue, found.kind, found.count) == ("schedule", "default", "work", 1)
    assert found.title == "schedule nightly was missed"
    assert found.details is not None
    assert msgspec.json.decode(found.details)["note"] == "2 times"


async def test_a_leader_that_comes_late_tells_what_it_has_missed(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": escalated()})
    plan = plan_of(Schedule(name="nightly", kind="work", every="1h"), new_job(1, kind="work"))
    await store.define_schedules({"nightly": msgspec.json.encode(plan).decode()}, [])
    firing, staff = SchedulesService(store, make_delivery(Holdfast("sqlite://").config, store)), Staff(store, OPS)
    await firing.run(100)
    for hours, told in ((1, 0), (1, 0), (5, 1)):
        await clock.advance((clock.now + timedelta(hours=hours)).replace(minute=0, second=1) - clock.now)
        if told:
            await clock.advance(minutes=10)  # beyond the grace
        await firing.run(100)
        await staff.escalating.run(500)
        assert len(await staff.rows()) == told
    (row,) = await staff.rows()
    assert (row.source, row.title) == ("schedule", "schedule nightly was missed")


async def test_the_policy_of_the_queue_counts_where_an_alarm_names_none(store: Store, clock: Clock) -> None:
    staff = Staff(store, OPS)
    await store.define_queues({"high": escalated()})
    await raw.raise_alarm(store, alarm(policy=None, source="sla", kind="", fingerprint="high"))
    await staff.escalating.run(500)
    assert [row.policy for row in await staff.rows()] == ["ops"]
    await store.define_queues({"high": keeping(1_000, 1_000, 1_000, 1_000)})
    await raw.raise_alarm(store, alarm(policy=None, fingerprint="after"))
    await staff.escalating.run(500)
    assert len(await staff.rows()) == 1


async def test_nothing_is_kept_for_ever(store: Store, clock: Clock) -> None:
    staff = Staff(store, OPS)
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    (row,) = await staff.rows()
    await raw.raise_alarm(store, alarm(policy="unknown"))
    assert await store.prune_alarms(10) == 0
    await clock.advance(days=3)
    assert await store.prune_alarms(10) == 1
    await Staff(store, Escalation(name="unknown", channels=["chat"])).escalating.run(500)
    assert len(await staff.rows()) == 1
    await clock.advance(days=27)
    assert await staff.events(row) != []
    await store.prune_alarms(10)
    assert await staff.events(row) == []
    await clock.advance(days=370)
    await store.prune_alarms(10)
    assert await staff.rows() == []
