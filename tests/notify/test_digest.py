"""The daily digest: once, with everything since the last one, by the clocks of its time zone."""

import asyncio
from datetime import UTC, datetime, timedelta

from holdfast.escalation.clock import answer_by, latest_digest, next_digest
from holdfast.hours import read_hours
from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.clock import Clock
from tests.support.notice_receiver import Mailbox, text_of
from tests.support.staff import Staff, alarm, channels


def daily(**changes: object) -> Escalation:
    given: dict[str, object] = {"name": "ops", "channels": ["mail"], "digest_at": "08:00", "tz": "Europe/Berlin"}
    return Escalation(**given | changes)  # type: ignore[arg-type] # each test knows what it changes


async def until(clock: Clock, hour: int, days: int = 0) -> None:
    """Go on to an hour of UTC."""
    at = (clock.now + timedelta(days=days)).replace(hour=hour, minute=0, second=0)
    await clock.advance(max(at - clock.now, timedelta()))


async def test_it_arrives_once_with_all_of_yesterday(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    leaders = [Staff(store, daily(), to=channels(mailbox=mailbox)) for _ in range(2)]
    staff = leaders[0]
    await staff.work()
    for number in range(5):
        for _ in range(number + 1):
            await raw.raise_alarm(store, alarm(f"error {number}", title=f"resize failed: {number}"))
    await raw.raise_alarm(store, alarm("over", source="budget", kind="", title="the budget ai is spent"))
    await staff.work()
    await clock.advance(hours=2)  # by now each of them has been quiet for an hour
    await staff.work()
    assert mailbox.mails == []
    await until(clock, 9, days=1)
    await raw.raise_alarm(store, alarm("late", title="resize failed: late"))
    await asyncio.gather(*(leader.escalating.run(500) for leader in leaders))
    await asyncio.gather(*(leader.work() for leader in leaders))
    (mail,) = mailbox.mails
    text = text_of(mail)
    for line in (
        "1 x resize failed: 0",
        "5 x resize failed: 4",
        "1 x the budget ai is spent",
        "1 x resize failed: late",
    ):
        assert line in text
    assert "17 alarms of 7 kinds since the last digest" in str(mail["Subject"])


async def test_one_day_has_one_digest_whoever_is_late(store: Store, clock: Clock) -> None:
    staff = Staff(store, daily())
    await staff.escalating.run(500)
    day = clock.now + timedelta(hours=1)
    assert await store.tell_together([], [], due_at=None, digest=("ops", day))
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    rows = await store.undigested("ops", 10)
    assert len(rows) == 1
    assert not await store.tell_together(rows, [], due_at=None, digest=("ops", day)), "that day had its digest"
    assert await store.tell_together(rows, [], due_at=None, digest=("ops", day + timedelta(days=1)))


async def test_a_day_without_anything_passes_in_silence(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    staff = Staff(store, daily(), to=channels(mailbox=mailbox))
    await staff.work()
    await raw.raise_alarm(store, alarm())
    for day in range(3):
        await until(clock, 12, days=1 if day else 0)
        await staff.work()
        await clock.advance(hours=1)
    assert len(mailbox.mails) == 1


async def test_the_next_one_holds_what_came_since(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    staff = Staff(store, daily(), to=channels(mailbox=mailbox))
    await staff.work()
    for count in (3, 2):
        for _ in range(count):
            await raw.raise_alarm(store, alarm())
        await staff.work()
        await until(clock, 12, days=1)
        await raw.raise_alarm(store, alarm())  # keeps it open
        await staff.work()
    first, second = (text_of(mail) for mail in mailbox.mails)
    assert "4 x resize failed" in first
    assert "3 x resize failed" in second


async def test_days_without_a_leader_are_one_digest(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    staff = Staff(store, daily(), to=channels(mailbox=mailbox))
    await staff.work()
    for _ in range(3):
        await raw.raise_alarm(store, alarm())
        await clock.advance(days=1)
    await staff.work()
    (mail,) = mailbox.mails
    assert "3 x resize failed" in text_of(mail)


async def test_an_unanswered_digest_goes_on_to_the_next_policy(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    boss = Escalation(name="boss", channels=["pager"])
    staff = Staff(store, daily(respond_within="8h", then="boss"), boss, to=channels(mailbox=mailbox))
    await staff.escalating.run(500)
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    await until(clock, 12, days=1)
    await staff.escalating.run(500)
    (row,) = await staff.rows()
    assert (row.stage, row.due_at) == ("ops", clock.now + timedelta(hours=8))
    await clock.advance(hours=8)
    await staff.escalating.run(500)
    assert await staff.events(row) == [("pager", "again")]


async def test_what_nobody_answers_may_end_in_a_digest(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    await until(clock, 12, days=1)
    ops = Escalation(name="ops", channels=["hook"], respond_within="1h", then="daily")
    staff = Staff(store, ops, daily(name="daily"), to=channels(mailbox=mailbox))
    await staff.escalating.run(500)
    for _ in range(3):
        await raw.raise_alarm(store, alarm())
        await staff.escalating.run(500)
        await clock.advance(minutes=40)
    await until(clock, 12, days=1)
    await staff.work()
    assert ["3 x resize failed" in text_of(mail) for mail in mailbox.mails] == [True]


def test_digests_follow_the_clocks_of_their_zone() -> None:
    summer, winter = datetime(2026, 10, 24, 7, tzinfo=UTC), datetime(2026, 10, 25, 7, 30, tzinfo=UTC)
    assert latest_digest("08:00", "Europe/Berlin", summer) == datetime(2026, 10, 24, 6, tzinfo=UTC)
    assert latest_digest("08:00", "Europe/Berlin", winter) == datetime(2026, 10, 25, 7, tzinfo=UTC)
    assert next_digest("08:00", "Europe/Berlin", summer) == datetime(2026, 10, 25, 7, tzinfo=UTC)
    assert next_digest("08:00", "Europe/Berlin", winter) == datetime(2026, 10, 26, 7, tzinfo=UTC)
    gap = datetime(2026, 3, 29, 12, tzinfo=UTC)  # 02:30 is not shown on this day
    assert latest_digest("02:30", "Europe/Berlin", gap) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_answers_are_due_in_business_hours() -> None:
    hours = BusinessHours(tz="America/New_York", holidays=["2026-11-26"]).hours
    wednesday = datetime(2026, 11, 25, 20, tzinfo=UTC)  # 15:00 there, before Thanksgiving
    assert answer_by(wednesday, timedelta(hours=4), hours) == datetime(2026, 11, 27, 16, tzinfo=UTC)
    night = datetime(2026, 11, 24, 3, tzinfo=UTC)
    assert answer_by(night, timedelta(hours=4), hours) == datetime(2026, 11, 24, 18, tzinfo=UTC)
    assert answer_by(night, timedelta(hours=4), None) == night + timedelta(hours=4)
    late = read_hours(window=("22:00", "02:00"), tz="Europe/Berlin")
    before_midnight = datetime(2026, 3, 28, 22, tzinfo=UTC)  # 23:00, and clocks go forward at 02:00
    assert answer_by(before_midnight, timedelta(hours=4), late) == datetime(2026, 3, 29, 21, tzinfo=UTC)
    never = read_hours(dates=["2020-01-01"])
    assert answer_by(night, timedelta(hours=1), never) == night + timedelta(hours=1)
