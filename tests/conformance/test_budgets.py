"""Budgets: what is set aside never passes the ceiling, what was spent is in the ledger once, whoever reports it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.job import JobState
from holdfast.stores.budgets import Reservation, Reserving, SpendPoint
from holdfast.stores.store import Store
from holdfast.transitions import Transition, completed, crashed, failed, interrupted, retried, snoozed
from tests.support.budgets import (
    ALERTS,
    DEFER,
    STOP,
    alarms,
    budget,
    ledger_sum,
    period_now,
    periods,
    reserve,
    spend,
    spent_by_a_job,
    sums,
    titles,
)
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim_one,
    crash,
    end,
    read,
    register,
    running,
    settle,
)
from tests.support.clock import Clock, set_time

NEW_YORK = "America/New_York"


# ---- what holds ----------------------------------------------------------------------------------------------------


async def test_budgets_are_set_and_dropped_as_one_set(store: Store) -> None:
    assert await store.define_budgets([budget(), budget(name="mail")]) == ["ai", "mail"]
    assert await store.define_budgets([budget(), budget(name="mail")]) == []
    assert (await store.read_budgets())[1] == [budget(), budget(name="mail")]
    changed = budget(2_000, path=("payload", "tenant"), queue="bulk", kinds=())
    assert await store.define_budgets([changed]) == ["ai", "mail"]
    assert (await store.read_budgets())[1] == [changed]
    raised = msgspec.structs.replace(changed, ceiling=3_000)
    assert await store.define_budgets([raised]) == ["ai"]
    assert (await store.read_budgets())[1] == [raised]


# ---- before a run --------------------------------------------------------------------------------------------------


async def test_an_estimate_is_set_aside_once(store: Store) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    for _ in range(2):  # the second time as after a lost reply
        answer = await reserve(store, job, 300)
        assert answer.outcome is Reserving.GRANTED
        assert answer.sums is not None
        assert (answer.sums.reserved, answer.sums.ceiling) == (300, 1_000)
    assert await sums(store) == (0, 300, 0)


async def test_without_its_budget_a_job_runs_free(store: Store) -> None:
    job = await running(store)
    assert (await reserve(store, job, 300)).outcome is Reserving.FREE


async def test_a_period_that_is_over_is_asked_for_again(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    starts, ends = await period_now(store)
    await clock.advance(ends - clock.now)
    answer = await store.reserve_spend(Reservation(job.id, job.claim, "ai", "", 1, starts, ends, 0, 0))
    assert (answer.outcome, answer.at) == (Reserving.STALE, ends)
    late = await spend(store, job, 5, starts_at=starts, ends_at=ends)
    assert not late.is_recorded
    assert await ledger_sum(store) == 0
    assert (await reserve(store, job, 1)).outcome is Reserving.GRANTED


async def test_above_the_ceiling_a_job_is_refused(store: Store) -> None:
    await store.define_budgets([budget()])
    await spent_by_a_job(store, 700)
    job = await running(store)
    assert (await reserve(store, job, 301)).outcome is Reserving.REFUSED
    assert (await reserve(store, job, 300)).outcome is Reserving.GRANTED
    assert await sums(store) == (700, 300, 0)


async def test_a_spent_budget_lets_nothing_start_that_estimates_nothing(store: Store) -> None:
    await store.define_budgets([budget()])
    await spent_by_a_job(store, 1_000)
    job = await running(store)
    assert (await reserve(store, job, 0)).outcome is Reserving.REFUSED


async def test_a_budget_that_only_alerts_stops_nobody(store: Store) -> None:
    await store.define_budgets([budget(thresholds=ALERTS)])
    await spent_by_a_job(store, 1_000)
    job = await running(store)
    assert (await reserve(store, job, 5_000)).outcome is Reserving.GRANTED


async def test_what_never_fits_fails_instead_of_waiting_for_ever(store: Store) -> None:
    await store.define_budgets([budget(thresholds=DEFER)])
    job = await running(store)
    assert (await reserve(store, job, 1_001)).outcome is Reserving.REFUSED


async def test_a_deferred_job_is_held_until_the_next_period(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget(thresholds=DEFER)])
    await spent_by_a_job(store, 900)
    worker = await register(store, lease_ms=10 * 86_400_000)
    job = await running(store, worker)
    _, ends = await period_now(store)
    for _ in range(2):  # the second time as after a lost reply
        answer = await reserve(store, job, 200)
        assert answer.outcome is Reserving.HELD
        assert answer.wakes_at == ends + timedelta(milliseconds=1_234)
    wakes_at = ends + timedelta(milliseconds=1_234)
    held = await read(store, job.id)
    assert (held.state, held.attempt, held.claim, held.position) == (JobState.HELD, 0, 1, None)
    assert (held.limit_key, held.worker, held.run_at) == ("budget:ai", None, wakes_at)
    assert [entry.outcome for entry in held.attempts] == ["snooze"]
    assert await sums(store) == (900, 0, 0)

    assert (await store.promote_jobs(10)).jobs == 0
    await clock.advance(ends - clock.now + timedelta(milliseconds=1_233))
    assert (await store.promote_jobs(10)).next_due_ms == 1
    assert (await read(store, job.id)).state is JobState.HELD
    await clock.advance(milliseconds=1)
    promoted = await store.promote_jobs(10, named=True)
    assert [ready.id for ready in promoted.ready] == [job.id]
    again = await claim_one(store, worker)
    assert (again.id, again.claim, again.attempt, again.limit_key) == (job.id, 2, 1, None)
    assert (await reserve(store, again, 200)).outcome is Reserving.GRANTED


async def test_a_job_that_was_cancelled_is_not_held(store: Store) -> None:
    await store.define_budgets([budget(thresholds=DEFER)])
    await spent_by_a_job(store, 1_000)
    job = await running(store)
    await cancel(store, job.id)
    assert (await reserve(store, job, 200)).outcome is Reserving.HELD
    assert (await read(store, job.id)).state is JobState.CANCELLED


async def test_one_that_only_lacks_room_waits_for_those_that_run(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    worker = await register(store)
    first, second = await running(store, worker), await running(store, worker)
    assert (await reserve(store, first, 800)).outcome is Reserving.GRANTED
    answer = await reserve(store, second, 800)
    assert (answer.outcome, answer.wakes_at) == (Reserving.HELD, clock.now + timedelta(seconds=5))
    assert (await read(store, second.id)).limit_key == "budget:ai room"
    assert await titles(store) == []
    await spend(store, first, 100)
    await settle(store, completed(first.id, first.claim))  # which frees 700
    assert (await store.promote_jobs(10)).jobs == 1
    again = await claim_one(store, worker)
    assert (await reserve(store, again, 800)).outcome is Reserving.GRANTED


async def test_a_raise_lets_deferred_jobs_go_on_at_once(store: Store) -> None:
    await store.define_budgets([budget(thresholds=DEFER), budget(name="mail")])
    await spent_by_a_job(store, 1_000)
    job = await running(store)
    assert (await reserve(store, job, 200)).outcome is Reserving.HELD
    assert await store.define_budgets([budget(2_000, thresholds=DEFER), budget(name="mail")]) == ["ai"]
    assert await store.release_deferred("mail", 10) == 0
    assert await store.release_deferred("ai", 10) == 1
    assert await store.release_deferred("ai", 10) == 0
    assert (await store.promote_jobs(10)).jobs == 1
    assert (await reserve(store, await claim_one(store), 200)).outcome is Reserving.GRANTED


@pytest.mark.guards("reserve-fence")
async def test_a_lost_claim_sets_nothing_aside(store: Store) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    await end(store, interrupted(job.id, job.claim))
    assert (await reserve(store, job, 200)).outcome is Reserving.LOST
    await claim_one(store)
    assert (await reserve(store, job, 200)).outcome is Reserving.LOST
    assert await periods(store) == []


async def test_each_key_has_a_sum_of_its_own(store: Store) -> None:
    await store.define_budgets([budget(path=("payload", "tenant"))])
    worker = await register(store)
    first, second = await running(store, worker), await running(store, worker)
    assert (await reserve(store, first, 1_000, key="a")).outcome is Reserving.GRANTED
    assert (await reserve(store, second, 1_000, key="b")).outcome is Reserving.GRANTED
    assert {row.key: row.reserved for row in await periods(store)} == {"a": 1_000, "b": 1_000}


# ---- during a run --------------------------------------------------------------------------------------------------


async def test_what_is_spent_is_written_once(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    job = await running(store, actor="alice")
    await reserve(store, job, 300)
    for _ in range(2):  # the second time as after a lost reply
        answer = await spend(store, job, 100, note="page 1")
        assert (answer.is_recorded, answer.is_late) == (True, False)
        assert answer.sums is not None
        assert (answer.sums.spent, answer.sums.reserved) == (100, 200)
    await spend(store, job, 50, 2)
    entries = await store.read_ledger("ai", 10)
    assert [(row.amount, row.note, row.actor, row.kind, row.is_late) for row in entries] == [
        (50, None, "alice", "work", False),
        (100, "page 1", "alice", "work", False),
    ]
    assert entries[0].at == clock.now
    assert await store.read_ledger("ai", 1, entries[0].id) == entries[1:]
    assert await sums(store) == (150, 150, 0)


async def test_an_actual_above_its_estimate_is_counted(store: Store) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    await reserve(store, job, 300)
    await spend(store, job, 1_200)
    assert await sums(store) == (1_200, 0, 0)


async def test_what_has_no_budget_is_written_all_the_same(store: Store) -> None:
    job = await running(store)
    nothing: dict[str, Any] = {"budget": None, "starts_at": None, "ends_at": None}
    answer = await spend(store, job, 70, unit="tokens", **nothing)
    assert (answer.is_recorded, answer.sums) == (True, None)
    (entry,) = await store.read_ledger(None, 10)
    assert (entry.budget, entry.unit, entry.amount) == (None, "tokens", 70)
    assert await store.read_ledger("ai", 10) == []


ENDS: dict[str, tuple[Callable[[int, int], Transition], tuple[int, int, int]]] = {
    "complete": (completed, (100, 0, 0)),
    "fail": (lambda job, claim: failed(job, claim, FAILURE), (100, 0, 0)),
    "retry": (lambda job, claim: retried(job, claim, FAILURE, 60_000), (100, 0, 0)),
    "snooze": (lambda job, claim: snoozed(job, claim, 60_000), (100, 0, 0)),
    "interrupt": (interrupted, (100, 0, 200)),
    "crash": (lambda job, claim: crashed(job, claim, FAILURE), (100, 0, 200)),
}


@pytest.mark.parametrize("name", ENDS)
async def test_the_end_of_a_claim_ends_what_was_set_aside(store: Store, name: str) -> None:
    ending, expected = ENDS[name]
    await store.define_budgets([budget()])
    job = await running(store)
    await reserve(store, job, 300)
    await spend(store, job, 100)
    transition = ending(job.id, job.claim)
    await end(store, transition)
    assert await sums(store) == expected
    await end(store, transition)  # as after a lost reply
    assert await sums(store) == expected
    assert len(await store.list_lost("ai", 10)) == (expected[2] > 0)


async def test_a_forced_cancel_keeps_what_was_set_aside(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    await reserve(store, job, 300)
    await cancel(store, job.id)
    await clock.advance(seconds=31)
    assert await store.force_cancels(30_000, 10) == (job.id,)
    assert await sums(store) == (0, 0, 300)


async def test_a_rescue_keeps_the_estimate_as_spent_until_it_is_settled(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    await reserve(store, job, 900)
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert (await store.rescue_jobs(10)).requeued == (job.id,)
    assert await sums(store) == (0, 0, 900)
    (lost,) = await store.list_lost("ai", 10)
    assert (lost.job_id, lost.claim, lost.amount, lost.spent) == (job.id, 1, 900, 0)
    assert await titles(store) == ["budget ai has reached 80 %"]

    again = await claim_one(store, await register(store))
    assert (await reserve(store, again, 101)).outcome is Reserving.REFUSED
    assert await store.settle_spend(job.id, job.claim)
    assert not await store.settle_spend(job.id, job.claim)
    assert await sums(store) == (0, 0, 0)
    assert (await reserve(store, again, 101)).outcome is Reserving.GRANTED


async def test_a_zombie_reports_what_it_spent_and_that_is_late(store: Store) -> None:
    await store.define_budgets([budget()])
    worker = await register(store)
    job = await running(store, worker)
    await reserve(store, job, 300)
    await crash(store, job)
    assert await sums(store) == (0, 0, 300)
    answer = await spend(store, job, 120)
    assert (answer.is_recorded, answer.is_late) == (True, True)
    assert await sums(store) == (120, 0, 180)  # what it reports is no longer guessed

    again = await claim_one(store, worker)
    await reserve(store, again, 300)
    await spend(store, again, 200)
    await settle(store, completed(again.id, again.claim))
    assert await sums(store) == (320, 0, 180)
    assert [row.is_late for row in await store.read_ledger("ai", 10)] == [False, True]


# ---- thresholds ----------------------------------------------------------------------------------------------------


async def test_an_alert_is_told_once_a_period(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget(thresholds=ALERTS)])
    worker = await register(store, lease_ms=10 * 86_400_000)
    job = await running(store, worker, queue="default")
    await spend(store, job, 799)
    assert await titles(store) == []
    await spend(store, job, 1, 2)
    await spend(store, job, 1, 2)
    await spend(store, job, 1, 3)
    assert await titles(store) == ["budget ai has reached 80 %"]
    await spend(store, job, 500, 4)
    await spend(store, job, 500, 5)
    told = ["budget ai has reached 80 %", "budget ai has reached 100 %"]
    assert await titles(store) == told
    assert [row.alerts for row in await periods(store)] == [(800_000, 1_000_000)]
    await clock.advance(days=1)
    await spend(store, job, 900, 6, key="")
    assert await titles(store) == [*told, "budget ai has reached 80 %"]


@pytest.mark.parametrize("thresholds, outcome", [(STOP, Reserving.REFUSED), (DEFER, Reserving.HELD)])
async def test_a_job_that_is_kept_out_raises_an_alarm_that_names_what_was_reached(
    store: Store, thresholds: Any, outcome: Reserving
) -> None:
    await store.define_budgets([budget(thresholds=thresholds)])
    await spent_by_a_job(store, 709)
    for _ in range(2):
        assert (await reserve(store, await running(store), 400)).outcome is outcome
    told = ["budget ai has reached 70 % and keeps jobs out that do not fit below 100 %"]
    assert await titles(store) == told
    await spent_by_a_job(store, 91)
    told.append("budget ai has reached 80 %")
    assert await titles(store) == told
    await spent_by_a_job(store, 200)
    assert (await reserve(store, await running(store), 1)).outcome is outcome
    assert await titles(store) == [*told, "budget ai has reached 100 %"]
    assert {(source, queue) for source, queue, _ in await alarms(store)} == {("budget", "default")}


# ---- periods -------------------------------------------------------------------------------------------------------

CHANGES = {
    "march": ("month", datetime(2027, 3, 31, 12, tzinfo=UTC), datetime(2027, 4, 1, 4, tzinfo=UTC)),
    "november": ("month", datetime(2027, 11, 30, 12, tzinfo=UTC), datetime(2027, 12, 1, 5, tzinfo=UTC)),
    "spring": ("day", datetime(2027, 3, 14, 12, tzinfo=UTC), datetime(2027, 3, 15, 4, tzinfo=UTC)),
    "autumn": ("day", datetime(2027, 11, 7, 12, tzinfo=UTC), datetime(2027, 11, 8, 5, tzinfo=UTC)),
}
STARTS = {
    "march": datetime(2027, 3, 1, 5, tzinfo=UTC),
    "november": datetime(2027, 11, 1, 4, tzinfo=UTC),
    "spring": datetime(2027, 3, 14, 5, tzinfo=UTC),
    "autumn": datetime(2027, 11, 7, 4, tzinfo=UTC),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_period_changes_at_midnight_in_new_york_whatever_clocks_do(store: Store, name: str) -> None:
    unit, during, change = CHANGES[name]
    period = (unit, NEW_YORK)
    await set_time(store, during)
    await store.define_budgets([budget(period=unit, tz=NEW_YORK)])
    job = await running(store, await register(store, lease_ms=86_400_000))
    assert await period_now(store, period) == (STARTS[name], change)
    await reserve(store, job, 500, period=period)
    await spend(store, job, 100, 1, period=period)
    await set_time(store, change - timedelta(milliseconds=1))
    await spend(store, job, 200, 2, period=period)
    await set_time(store, change)
    await spend(store, job, 400, 3, period=period)
    assert await sums(store, at=during) == (300, 200, 0)
    assert await sums(store) == (400, 0, 0)
    parts = await store.break_down("ai", "kind", STARTS[name], change, 10)
    assert [(part.name, part.amount, part.entries) for part in parts] == [("work", 300, 2)]


# ---- what people read ----------------------------------------------------------------------------------------------


async def test_the_ledger_is_broken_down(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget(10_000)])
    worker = await register(store)
    for actor, kind, amount in [("a", "draw", 5), ("b", "draw", 7), ("a", "read", 100), (None, "read", 1)]:
        job = await running(store, worker, actor=actor, kind=kind)
        await spend(store, job, amount, key=f"tenant-{actor}")
        await spend(store, job, amount, 2, key=f"tenant-{actor}")
    since, until = clock.now, clock.now + timedelta(seconds=1)

    async def parts(by: str) -> dict[str | None, tuple[int, int]]:
        found = await store.break_down("ai", by, since, until, 10)  # type: ignore[arg-type] # one of its words
        return {part.name: (part.amount, part.entries) for part in found}

    assert await parts("kind") == {"read": (202, 4), "draw": (24, 4)}
    assert await parts("actor") == {"a": (210, 4), "b": (14, 2), None: (2, 2)}
    assert await parts("key") == {"tenant-a": (210, 4), "tenant-b": (14, 2), "tenant-None": (2, 2)}
    assert await store.break_down("ai", "kind", until, until + timedelta(days=1), 10) == []
    points = await store.spend_series("ai", "tenant-a", since, until, 60_000)
    assert points == [SpendPoint(since, 210)]
    await clock.advance(minutes=3)
    late = await running(store, worker, actor="a", kind="draw")
    await spend(store, late, 4, key="tenant-a")
    points = await store.spend_series("ai", "tenant-a", since, since + timedelta(hours=1), 60_000)
    assert points == [SpendPoint(since, 210), SpendPoint(since + timedelta(minutes=3), 4)]
    assert await store.spend_series("ai", "tenant-c", since, until, 60_000) == []
    assert await store.mean_spend("ai", "read") == 101
    assert await store.mean_spend("ai", "other") is None
    await clock.advance(days=7)
    assert await store.mean_spend("ai", "read") is None


async def test_the_ledger_is_kept_for_25_months(store: Store, clock: Clock) -> None:
    await store.define_budgets([budget()])
    job = await running(store)
    await reserve(store, job, 500)
    await spend(store, job, 100)
    await crash(store, job)
    await clock.advance(days=745)
    assert await store.prune_ledger(10) == 0
    await clock.advance(days=32)
    assert await store.prune_ledger(10) == 1
    assert await store.prune_ledger(10) == 0
    assert await store.read_ledger(None, 10) == []
    assert await store.list_periods("ai", clock.now - timedelta(days=777), 10) == []
    assert await store.list_lost("ai", 10) == []
