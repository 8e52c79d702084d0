"""Escalations on every store: counted together, told once, answered, repeated, handed on, closed by quiet."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.stores.alarms import Pace
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.clock import Clock
from tests.support.staff import Staff, alarm


def ops(**changes: object) -> Escalation:
    given: dict[str, object] = {"name": "ops", "channels": ["pager", "chat"]}
    return Escalation(**given | changes)  # type: ignore[arg-type] # each test knows what it changes


async def test_what_repeats_is_one_escalation_that_is_told_once(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops())
    for job_id in range(1, 8):
        await raw.raise_alarm(store, alarm(job_id=job_id, title=f"resize failed: {job_id}"))
    await raw.raise_alarm(store, alarm("KeyError@work.py:run"))
    await staff.escalating.run(500)
    await clock.advance(minutes=5)
    await raw.raise_alarm(store, alarm(job_id=8))
    await staff.escalating.run(500)
    first, second = sorted(await staff.rows(), key=lambda row: -row.count)
    assert (first.count, first.jobs, second.count) == (8, (8, 7, 6, 5, 4), 1)
    assert first.last_at - first.first_at == timedelta(minutes=5)
    assert await staff.events(first) == [("pager", "trigger"), ("chat", "trigger")]


async def test_an_alarm_without_a_policy_or_from_an_unwanted_source_tells_nobody(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops(sources=["failed"]))
    await raw.raise_alarm(store, alarm(policy=None, queue="unheard"))
    await raw.raise_alarm(store, alarm(source="sla"))
    await staff.escalating.run(500)
    assert await staff.rows() == []


async def test_an_alarm_of_a_policy_that_this_program_does_not_know_waits(store: Store, clock: Clock) -> None:
    await raw.raise_alarm(store, alarm(policy="others"))
    await Staff(store, ops()).escalating.run(500)
    others = Staff(store, ops(name="others"))
    await others.escalating.run(500)
    assert [row.policy for row in await others.rows()] == ["others"]


async def test_an_answer_closes_it_and_the_next_alarm_opens_another(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops())
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    (first,) = await staff.rows()
    answered = await store.ack_escalation(first.id, actor="ann", note="on it")
    assert answered is not None
    assert (answered.acked_by, answered.note, answered.closed_at) == ("ann", "on it", clock.now)
    again = await store.ack_escalation(first.id, actor="bob", note=None)
    assert again is not None
    assert again.acked_by == "ann", "the first answer counts"
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    assert await staff.events(first) == [("pager", "trigger"), ("chat", "trigger"), ("pager", "acknowledge")]
    assert [row.id == first.id for row in await staff.rows(is_open=True)] == [False]
    await clock.advance(hours=1)
    await staff.escalating.run(500)
    assert (await staff.events(first))[-1] == ("pager", "resolve")


async def test_a_quiet_hour_closes_it_and_a_repeat_keeps_it_open(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops())
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    await clock.advance(minutes=59)
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    await clock.advance(minutes=59)
    await staff.escalating.run(500)
    assert len(await staff.rows(is_open=True)) == 1
    await clock.advance(minutes=1)
    await staff.escalating.run(500)
    (row,) = await staff.rows(is_open=False)
    assert (row.closed_at, row.count) == (clock.now, 2)
    assert (await staff.events(row))[-1] == ("pager", "resolve")


async def test_what_has_grown_meanwhile_is_not_closed(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops())
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    (seen,) = await staff.rows()
    await raw.raise_alarm(store, alarm())
    await store.fold_alarms({"ops": ["failed"]}, 10)
    closed = type(seen)(**{name: getattr(seen, name) for name in seen.__struct_fields__} | {"closed_at": clock.now})
    assert not await store.move_escalation(seen, closed, [])
    assert len(await staff.rows(is_open=True)) == 1


async def test_no_answer_in_time_is_said_again_and_then_by_the_next(store: Store, clock: Clock) -> None:
    staff = Staff(
        store,
        ops(channels=["chat"], respond_within="15m", repeat=1, then="boss"),
        ops(name="boss", channels=["pager"], respond_within="5m"),
    )
    await raw.raise_alarm(store, alarm())
    told: list[list[tuple[str, str]]] = []
    for minutes in (0, 14, 1, 15, 5, 1):
        await clock.advance(minutes=minutes)
        await staff.escalating.run(500)
        told += [await staff.events(one) for one in await staff.rows()]
    first, again, boss = ("chat", "trigger"), ("chat", "again"), ("pager", "again")
    assert told == [[first], [first], [first, again], *([[first, again, boss]] * 3)]
    (row,) = await staff.rows()
    assert (row.policy, row.stage, row.due_at) == ("ops", "boss", None)


async def test_a_response_clock_keeps_a_quiet_one_open_until_it_has_run_out(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops(respond_within="2h"))
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    await clock.advance(minutes=90)
    await staff.escalating.run(500)
    assert len(await staff.rows(is_open=True)) == 1
    await clock.advance(minutes=30)
    await staff.escalating.run(500)
    await staff.escalating.run(500)
    assert await staff.rows(is_open=True) == []


async def test_business_hours_stop_the_clock(store: Store, clock: Clock) -> None:
    friday = clock.now + timedelta(days=(4 - clock.now.weekday()) % 7)
    await clock.advance(friday.replace(hour=16, minute=0, second=0) - clock.now)
    hours = BusinessHours(holidays=[(clock.now + timedelta(days=3)).date()])  # a Monday
    staff = Staff(store, ops(respond_within="4h", business_hours=hours, repeat=1))
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    (row,) = await staff.rows()
    assert row.due_at == clock.now + timedelta(days=4, hours=-4), "an hour of Friday, three of Tuesday"


async def test_a_snooze_is_silent_until_it_ends(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops(channels=["chat"], respond_within="15m", repeat=3))
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    (row,) = await staff.rows()
    assert await store.snooze_escalation(row.id, until=None, delay_ms=7_200_000, actor="ann") is not None
    await clock.advance(minutes=90)
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    assert await staff.events(row) == [("chat", "trigger")]
    await clock.advance(minutes=30)
    await staff.escalating.run(500)
    assert await staff.events(row) == [("chat", "trigger"), ("chat", "again")]
    (row,) = await staff.rows()
    assert (row.count, row.snoozed_until, row.due_at) == (2, None, clock.now + timedelta(minutes=15))


async def test_what_is_over_the_rate_is_told_together(store: Store, clock: Clock) -> None:
    staff = Staff(store, ops(channels=["chat"], rate="3/h"))
    for number in range(10):
        await raw.raise_alarm(store, alarm(f"error {number}"))
    await staff.escalating.run(500)
    rows = await staff.rows()
    assert all(row.told_at is not None for row in rows)
    notices = await store.claim_notices(["chat"], 100, 1_000)
    assert sorted(notice.event for notice in notices) == ["rest", "trigger", "trigger"]
    await raw.raise_alarm(store, alarm("one more"))
    await staff.escalating.run(500)
    assert [row.told_at for row in await staff.rows() if row.fingerprint == "one more"] == [None]
    await clock.advance(minutes=20)
    await staff.escalating.run(500)
    assert [row.told_at for row in await staff.rows() if row.fingerprint == "one more"] == [clock.now]


async def test_two_leaders_tell_once(store: Store, clock: Clock) -> None:
    first, second = Staff(store, ops(respond_within="5m", repeat=5)), Staff(store, ops(respond_within="5m", repeat=5))
    for number in range(20):
        await raw.raise_alarm(store, alarm(f"error {number}"))
    await asyncio.gather(first.escalating.run(500), second.escalating.run(500))
    await first.escalating.run(500)
    await clock.advance(minutes=5)
    await asyncio.gather(first.escalating.run(500), second.escalating.run(500))
    for row in await first.rows():
        events = await first.events(row)
        assert len(events) == len(set(events)), events


async def test_two_leaders_share_one_rate(store: Store, clock: Clock) -> None:
    first, second = Staff(store, ops(channels=["chat"], rate="3/h")), Staff(store, ops(channels=["chat"], rate="3/h"))
    for number in range(3):
        await raw.raise_alarm(store, alarm(f"error {number}"))
    await first.escalating.run(500)
    (seen, *_) = await first.rows()
    pace = Pace("ops", 1_200_000_000, 3)
    assert not await store.move_escalation(seen, seen, [], pace), "all three are used"
    assert not await store.tell_together([], [], due_at=None, pace=pace)
    await raw.raise_alarm(store, alarm("one more"))
    await asyncio.gather(first.escalating.run(500), second.escalating.run(500))
    await clock.advance(minutes=20)
    await raw.raise_alarm(store, alarm("and another"))
    await asyncio.gather(first.escalating.run(500), second.escalating.run(500))
    assert len(await store.claim_notices(["chat"], 100, 1_000)) == 4


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"channels": []}, "at least one channel"),
        ({"repeat": 2}, "expected respond_within"),
        ({"then": "boss"}, "expected respond_within"),
        ({"digest_at": "08:00", "respond_within": "1h", "repeat": 1}, "expected 0 with digest_at"),
        ({"link": "jobs.example.org"}, "link: expected an http"),
        ({"channels": ["pigeon"]}, "'pigeon'"),
        ({"respond_within": "1h", "then": "ops"}, "the circle ops -> ops"),
        ({"respond_within": "1h", "then": "nobody"}, "'nobody'"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(Exception, match=expected) as caught:
        Staff(None, ops(**changes))  # type: ignore[arg-type] # it does not get as far as the store
    assert type(caught.value).__name__ == "ConfigError"
