"""Which of the times that have come get a job: late ones always, missed ones as the schedule says."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast import ConfigError
from holdfast.hours import Maintenance, read_maintenance
from holdfast.job import NewJob
from holdfast.schedules import Decision, Outcome, Plan, Schedule, decide, plan_of, read_plan

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
JOB = NewJob(
    id=0, kind="report", queue="default", priority=5, payload="{}", max_attempts=5, max_crashes=3, timeout_ms=None
)


def plan(**options: Any) -> Plan:
    """The plan of a schedule that fires every minute, unless it says otherwise."""
    given: dict[str, Any] = {"every": "1m"} if "cron" not in options else {}
    return plan_of(Schedule(name="report", kind="report", **(given | options)), JOB)


def decided(written: Plan, ago: timedelta, *closed: Maintenance) -> list[Decision]:
    """Decide at noon on everything since some time ago."""
    return decide(written, NOON - ago, NOON, closed)


def enqueued(decisions: list[Decision]) -> list[datetime]:
    return [decision.nominal for decision in decisions if decision.outcome is Outcome.ENQUEUED]


# ---- late, and missed ----------------------------------------------------------------------------------------------


def test_nothing_is_due_before_its_time() -> None:
    assert decided(plan(cron="0 13 * * *"), timedelta(hours=2)) == []


def test_a_time_that_has_just_come_fires() -> None:
    assert decided(plan(), timedelta(seconds=30)) == [Decision(NOON, Outcome.ENQUEUED)]


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_what_is_later_than_its_time_by_less_than_the_grace_runs_whatever_is_missed(missed: str) -> None:
    decisions = decided(plan(missed=missed, grace="5m"), timedelta(minutes=4, seconds=30))
    assert decisions == [Decision(NOON - timedelta(minutes=ago), Outcome.ENQUEUED) for ago in (4, 3, 2, 1, 0)]


def test_the_grace_ends_with_the_very_time_that_is_as_late() -> None:
    decisions = decided(plan(missed="skip", grace="60s"), timedelta(seconds=90))
    assert decisions == [
        Decision(NOON - timedelta(minutes=1), Outcome.MISSED, "1 missed and dropped", is_missed=True),
        Decision(NOON, Outcome.ENQUEUED),
    ]


@pytest.mark.parametrize(
    "outage, times", [(timedelta(hours=5), 5), (timedelta(hours=25), 25)], ids=["five hours", "a day and an hour"]
)
@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_after_an_outage_as_many_jobs_are_made_as_the_policy_says(outage: timedelta, times: int, missed: str) -> None:
    hourly = plan(cron="30 * * * *", missed=missed)
    decisions = decided(hourly, outage)
    expected = {"skip": 0, "once": 1, "all": times}[missed]
    last = NOON - timedelta(minutes=30)
    assert enqueued(decisions) == [last - timedelta(hours=ago) for ago in reversed(range(expected))]
    dropped = times - expected
    assert decisions[0].note == (f"{dropped} missed and dropped" if dropped else "missed")
    assert len(decisions) == max(expected, 1)
    assert decisions[-1].nominal == last


def test_once_makes_one_job_for_the_last_time_beside_those_that_are_merely_late() -> None:
    decisions = decided(plan(missed="once", grace="90s"), timedelta(minutes=10))
    assert decisions == [
        Decision(NOON - timedelta(minutes=2), Outcome.ENQUEUED, "7 missed and dropped", is_missed=True),
        Decision(NOON - timedelta(minutes=1), Outcome.ENQUEUED),
        Decision(NOON, Outcome.ENQUEUED),
    ]


def test_all_keeps_the_last_ones_up_to_its_bound_and_says_how_many_were_dropped() -> None:
    decisions = decided(plan(missed="all", most_missed=3), timedelta(minutes=10))
    late, missed = decisions[-1], decisions[:-1]
    assert late == Decision(NOON, Outcome.ENQUEUED)
    assert [decision.nominal for decision in missed] == [NOON - timedelta(minutes=ago) for ago in (3, 2, 1)]
    assert [decision.note for decision in missed] == ["6 missed and dropped", "missed", "missed"]


def test_a_year_of_seconds_is_not_gone_through() -> None:
    decisions = decided(plan(every="1s", missed="all", most_missed=100), timedelta(days=365))
    missed = [decision for decision in decisions if decision.note]
    assert len(missed) == 100
    assert missed[0].note == "10,000 or more missed and dropped"
    assert missed[-1].nominal == NOON - timedelta(seconds=60)
    assert len(decisions) - len(missed) == 60


@pytest.mark.parametrize("missed, most", [("once", 1), ("all", 5_000), ("all", 10_000)])
def test_the_last_of_many_times_are_found_also_behind_a_quiet_weekend(missed: str, most: int) -> None:
    busy = plan(every="1s", window=("09:00", "17:00"), days="mon-fri", missed=missed, most_missed=most)
    monday = datetime(2026, 3, 9, 8, tzinfo=UTC)
    last = datetime(2026, 3, 6, 16, 59, 59, tzinfo=UTC)  # of 18,000 on the Friday before
    decisions = decide(busy, datetime(2026, 3, 6, 12, tzinfo=UTC), monday)
    assert enqueued(decisions) == [last - timedelta(seconds=ago) for ago in reversed(range(most))]


def test_nothing_is_left_between_what_is_missed_and_what_is_late() -> None:
    nominals = [decision.nominal for decision in decided(plan(every="1s", missed="all"), timedelta(seconds=150))]
    assert nominals[-1] == NOON
    assert {later - earlier for earlier, later in itertools.pairwise(nominals)} == {timedelta(seconds=1)}
    assert len(nominals) == 150


def test_more_late_times_than_one_round_may_fire_are_seen_to_be_more() -> None:
    late = decided(plan(every="1s", grace="1d"), timedelta(hours=10))
    assert len(late) == 10_001
    assert late[0].nominal == NOON - timedelta(hours=10) + timedelta(seconds=1)


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_clock_that_goes_back_fires_nothing_twice(missed: str) -> None:
    written = plan(missed=missed)
    fired = decide(written, NOON - timedelta(seconds=30), NOON)[-1].nominal
    for back in (1, 60, 90, 86_400):
        assert decide(written, fired, NOON - timedelta(seconds=back)) == []
    assert decide(written, fired, NOON + timedelta(minutes=1))[0].nominal == NOON + timedelta(minutes=1)


# ---- maintenance ---------------------------------------------------------------------------------------------------


def test_a_time_within_maintenance_is_recorded_and_left_out() -> None:
    closed = read_maintenance(window=("11:59", "12:30"))
    assert decided(plan(grace="5m"), timedelta(minutes=2, seconds=30), closed) == [
        Decision(NOON - timedelta(minutes=2), Outcome.ENQUEUED),
        Decision(NOON - timedelta(minutes=1), Outcome.MAINTENANCE, "closed until 2026-03-04 12:30 UTC"),
        Decision(NOON, Outcome.MAINTENANCE, "closed until 2026-03-04 12:30 UTC"),
    ]


def test_maintenance_follows_the_clocks_of_its_own_zone() -> None:
    berlin = read_maintenance(window=("13:00", "14:00"), days="wed", tz="Europe/Berlin")  # 12:00 to 13:00 UTC
    assert [found.outcome for found in decided(plan(), timedelta(seconds=90), berlin)] == [
        Outcome.ENQUEUED,
        Outcome.MAINTENANCE,
    ]


def test_of_several_windows_any_closes() -> None:
    windows = [read_maintenance(dates=["2026-03-05"]), read_maintenance(days="wed")]
    assert [found.outcome for found in decided(plan(), timedelta(seconds=30), *windows)] == [Outcome.MAINTENANCE]


def test_what_was_missed_during_maintenance_does_not_come_afterwards() -> None:
    closed = read_maintenance(window=("09:00", "11:50"))
    decisions = decided(plan(cron="0 * * * *", missed="all"), timedelta(hours=3, minutes=30), closed)
    assert [(found.nominal.hour, found.outcome) for found in decisions] == [
        (9, Outcome.MAINTENANCE),
        (10, Outcome.MAINTENANCE),
        (11, Outcome.MAINTENANCE),
        (12, Outcome.ENQUEUED),
    ]


# ---- what is written down ------------------------------------------------------------------------------------------


def test_a_plan_is_read_as_it_was_written_with_what_people_changed() -> None:
    written = plan(cron="0 3 * * *", tz="Europe/Berlin", overlap="queue", missed="all", jitter="5m")
    text = msgspec.json.encode(written).decode()
    assert read_plan(text) == written
    changed = read_plan(text, '{"enabled": false, "missed": "skip"}')
    assert (changed.enabled, changed.missed, changed.times) == (False, "skip", written.times)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "expected either cron or every, got neither"),
        ({"cron": "0 3 * * *", "every": "5m"}, "expected either cron or every, got cron="),
        ({"cron": "61 * * * *"}, "cron: expected five fields"),
        ({"every": "10ms"}, "every: expected from 1 second"),
        ({"every": "5m", "tz": "Mars/Phobos"}, "Mars/Phobos"),
        ({"every": "5m", "window": ("9", "16:00")}, "window: expected two local times"),
        ({"every": "5m", "days": "noday"}, "days: expected weekdays"),
        ({"every": "5m", "exclude": "2026-12-25"}, "exclude: expected a sequence of dates"),
        ({"every": "5m", "jitter": "2d"}, "jitter: expected at most a day"),
        ({"every": "5m", "overlap": "wait"}, 'overlap: expected "skip", "queue" or "cancel", got \'wait\''),
        ({"every": "5m", "missed": "none"}, 'missed: expected "skip", "once" or "all", got \'none\''),
        ({"every": "5m", "most_missed": 0}, "most_missed"),
        ({"every": "5m", "most_missed": 10_001}, "most_missed"),
        ({"every": "5m", "grace": "19s"}, "grace: expected at least 20 s, in which a leader is replaced, got 19000 ms"),
        ({"every": "5m", "name": ""}, "name"),
    ],
)
def test_a_mistake_is_named_with_the_schedule(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Schedule(**({"name": "nightly", "kind": "report"} | options))
    assert expected in str(refused.value)
    assert str(refused.value).startswith("schedule ")
