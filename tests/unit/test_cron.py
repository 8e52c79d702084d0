"""When schedules fire: on ordinary days, when clocks change, within opening hours."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cron import HORIZON, Times, read_times
from holdfast.errors import InvalidValue

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_day(zone: str, day: str) -> tuple[datetime, datetime]:
    """The instants just before the first of a local day and just before the first of the next."""
    start = datetime.fromisoformat(day)
    bounds = (start.replace(tzinfo=ZoneInfo(zone)), (start + DAY).replace(tzinfo=ZoneInfo(zone)))
    tick = timedelta(microseconds=1)
    return bounds[0].astimezone(UTC) - tick, bounds[1].astimezone(UTC) - tick


def on(times: Times, zone: str, day: str) -> list[datetime]:
    after, until = local_day(zone, day)
    return times.between(after, until, 100_000)


# zone, local day, the line of the vector, when it fires, how many hours the day has
VECTORS = [
    ("Europe/Berlin", "2026-03-29", "30 2 * * *", "2026-03-29T01:00", 23),
    ("Europe/Berlin", "2026-10-25", "30 2 * * *", "2026-10-25T00:30", 25),
    ("America/New_York", "2026-03-08", "30 2 * * *", "2026-03-08T07:00", 23),
    ("America/New_York", "2026-11-01", "30 1 * * *", "2026-11-01T05:30", 25),
    ("Australia/Lord_Howe", "2026-04-05", "45 1 * * *", "2026-04-04T14:45", 24.5),
    ("Australia/Lord_Howe", "2026-10-04", "15 2 * * *", "2026-10-03T15:30", 23.5),
    ("America/Santiago", "2026-09-06", "0 0 * * *", "2026-09-06T04:00", 23),
    ("Africa/Cairo", "2026-04-24", "0 0 * * *", "2026-04-23T22:00", 23),
    ("Asia/Beirut", "2026-03-29", "0 0 * * *", "2026-03-28T22:00", 23),
]


@pytest.mark.parametrize("zone, day, line, fires, hours", VECTORS)
def test_a_daily_line_fires_once_on_the_day_the_clocks_change(
    zone: str, day: str, line: str, fires: str, hours: float
) -> None:
    assert on(read_times(cron=line, tz=zone), zone, day) == [at(fires)]


@pytest.mark.parametrize("zone, day, line, fires, hours", VECTORS)
def test_an_hourly_line_fires_in_every_hour_that_the_clocks_begin(
    zone: str, day: str, line: str, fires: str, hours: float
) -> None:
    for hourly in ("0 * * * *", "0 0-23 * * *", "0 0 * * * *"):
        found = on(read_times(cron=hourly, tz=zone), zone, day)
        assert len(found) == int(hours)  # Lord Howe moves by half an hour: 02:00 is not shown in spring
        assert all(fire.astimezone(ZoneInfo(zone)).minute == 0 for fire in found)


@pytest.mark.parametrize("zone, day, line, fires, hours", VECTORS)
def test_a_line_for_every_half_hour_fires_in_every_half_hour(
    zone: str, day: str, line: str, fires: str, hours: float
) -> None:
    found = on(read_times(cron="*/30 * * * *", tz=zone), zone, day)
    assert len(found) == hours * 2
    assert {later - fire for fire, later in pairwise(found)} == {timedelta(minutes=30)}


@pytest.mark.parametrize("line", ["30 2 * * *", "30 9 * * *", "0 0 * * *", "59 23 * * *", "0 30 2 * * *"])
def test_a_day_that_the_clocks_skipped_has_no_fire_and_the_next_has_one(line: str) -> None:
    times = read_times(cron=line, tz="Pacific/Apia")
    found = times.between(at("2011-12-28T10:00"), at("2012-01-02T09:59:59"), 100)
    days = [fire.astimezone(ZoneInfo("Pacific/Apia")).date().isoformat() for fire in found]
    assert days == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01", "2012-01-02"][-len(days) :]
    assert days.count("2011-12-31") == 1
    assert "2011-12-30" not in days


def test_repeating_lines_pass_over_the_skipped_day_without_a_pause() -> None:
    for line, step in (("0 * * * *", HOUR), ("*/30 * * * *", HOUR / 2)):
        found = read_times(cron=line, tz="Pacific/Apia").between(at("2011-12-29T10:00"), at("2011-12-31T10:00"), 1_000)
        assert {later - fire for fire, later in pairwise(found)} == {step}


def test_a_time_in_a_gap_over_midnight_is_made_up_for_on_the_next_day() -> None:
    times = read_times(cron="30 23 * * *", tz="America/Nuuk")  # 2024-03-30 ended at 23:00
    found = times.between(at("2024-03-29T12:00"), at("2024-04-01T12:00"), 10)
    assert found == [at("2024-03-30T01:30"), at("2024-03-31T01:00"), at("2024-04-01T00:30")]


@pytest.mark.parametrize(
    "line, zone, day, expected",
    [
        # Times inside one gap come together, as one fire.
        ("0,15,30,45 2 * * *", "Europe/Berlin", "2026-03-29", ["2026-03-29T01:00"]),
        ("30 2,3 * * *", "Europe/Berlin", "2026-03-29", ["2026-03-29T01:00", "2026-03-29T01:30"]),
        # Seconds do not change the rule.
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-29", ["2026-03-29T01:00"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-25", ["2026-10-25T00:30"]),
        # One time a day is one, however it is written.
        ("*/60 2 * * *", "Europe/Berlin", "2026-10-25", ["2026-10-25T00:00"]),
        ("0 */24 * * *", "America/Santiago", "2026-09-06", ["2026-09-06T04:00"]),
        # A midnight that comes twice is one midnight.
        ("0 0 * * *", "America/Havana", "2026-11-01", ["2026-11-01T04:00"]),
    ],
)
def test_lines_of_fixed_times_around_gaps_and_folds(line: str, zone: str, day: str, expected: list[str]) -> None:
    assert on(read_times(cron=line, tz=zone), zone, day) == [at(fire) for fire in expected]


def test_whoever_asks_within_the_second_pass_of_a_fold_hears_of_the_next_day() -> None:
    times = read_times(cron="30 1 * * *", tz="America/New_York")
    assert times.next_after(at("2026-11-01T06:10")) == at("2026-11-02T06:30")
    assert times.next_after(at("2026-11-01T05:30")) == at("2026-11-02T06:30")
    assert times.next_after(at("2026-11-01T05:29:59.999999")) == at("2026-11-01T05:30")


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC"]
)
def test_every_local_day_of_a_year_has_exactly_one_daily_fire(zone: str) -> None:
    for line in ("30 2 * * *", "0 0 * * *", "45 1 * * *"):
        after, until = local_day(zone, "2026-01-01")[0], local_day(zone, "2027-01-01")[0]
        fires = read_times(cron=line, tz=zone).between(after, until, 1_000)
        days = Counter(fire.astimezone(ZoneInfo(zone)).date() for fire in fires)
        assert days == Counter(date(2026, 1, 1) + DAY * n for n in range(365))


LINES = st.sampled_from(
    [
        "* * * * *",
        "*/30 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "15 1,2 * * *",
        "0 0 * * *",
        "*/7 1-3 * * *",
        "0 0 29 2 *",
        "0 12 * * mon#2",
        "0 9 L * *",
        "*/20 * * * * *",
        "5 30 2 * * 0",
    ]
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Asia/Beirut"]
)
WINDOWS = st.sampled_from([None, ("09:30", "16:00"), ("01:30", "02:30"), ("22:00", "06:00"), ("00:00", "24:00")])
DAYS = st.sampled_from([None, "mon-fri", "sun", "fri-mon", ["tue", "thu"]])
EXCLUDES = st.sampled_from([(), ["2026-03-29"], [("2026-03-01", "2026-04-10"), "2026-10-25"]])
MOMENTS = st.one_of(
    st.datetimes(datetime(2025, 6, 1), datetime(2027, 6, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - timezones adds it
    st.sampled_from(["2026-03-29T01:00", "2026-10-25T00:30", "2026-03-08T07:00", "2026-11-01T05:30"]).flatmap(
        lambda text: st.timedeltas(-3 * HOUR, 3 * HOUR).map(lambda by: at(text) + by)
    ),
)


@st.composite
def described(draw: st.DrawFn) -> Times:
    shared: dict[str, Any] = {
        "window": draw(WINDOWS),
        "days": draw(DAYS),
        "tz": draw(ZONES),
        "exclude": draw(EXCLUDES),
    }
    if draw(st.booleans()):
        return read_times(cron=draw(LINES), **shared)
    return read_times(every=draw(st.sampled_from(["1s", "1s 500ms", "90s", "5m", "1h", "7h", "1d"])), **shared)


@steady
@given(described(), MOMENTS)
def test_fires_go_forward_and_are_the_same_from_wherever_one_asks(times: Times, moment: datetime) -> None:
    fires = [moment]
    while len(fires) < 8 and (fire := times.next_after(fires[-1])) is not None:
        assert fire > fires[-1]
        assert fire.tzinfo is UTC
        wall = fire.astimezone(times.hours.zone)
        assert times.next_after(fire - timedelta(microseconds=1)) == fire
        assert times.next_after(fires[-1] + (fire - fires[-1]) / 2) in (fire, times.next_after(fire))
        if times.every_ms:
            assert times.hours.covers(wall.replace(tzinfo=None))
        fires.append(fire)
    if len(fires) > 1:
        assert times.between(moment, fires[-1], 100) == fires[1:]
        assert times.between(moment, fires[-1], 2) == fires[1:3]
        assert times.between(moment, fires[-1] - timedelta(microseconds=1), 100) == fires[1:-1]


@steady
@given(
    st.sampled_from([("* * * * *", range(60)), ("*/30 * * * *", (0, 30)), ("7 * * * *", (7,))]),
    WINDOWS,
    DAYS,
    ZONES,
    MOMENTS,
)
def test_no_fire_is_passed_over(
    line: tuple[str, Sequence[int]], window: Any, days: Any, zone: str, moment: datetime
) -> None:
    times = read_times(cron=line[0], window=window, days=days, tz=zone)
    start = moment.replace(second=0, microsecond=0)
    minutes = [start + timedelta(minutes=n) for n in range(1, 14 * 60)]
    walls = [(minute, minute.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for minute in minutes]
    expected = [minute for minute, wall in walls if wall.minute in line[1] and times.hours.covers(wall)]
    assert times.between(start, minutes[-1], 10_000) == expected


# ---- intervals and opening hours


def test_an_interval_counts_from_the_epoch() -> None:
    times = read_times(every="7m")
    assert times.next_after(datetime(1970, 1, 1, tzinfo=UTC)) == at("1970-01-01T00:07")
    assert times.next_after(at("1969-12-31T23:59")) == at("1970-01-01T00:00")
    fire = times.next_after(at("2026-05-05T05:05"))
    assert fire is not None
    assert fire.timestamp() % 420 == 0


def test_the_market_is_open_from_half_past_nine_to_four() -> None:
    times = read_times(every="5m", window=("09:30", "16:00"), days="mon-fri", tz="America/New_York")
    found = on(times, "America/New_York", "2026-07-06")
    assert (found[0], found[-1], len(found)) == (at("2026-07-06T13:30"), at("2026-07-06T19:55"), 78)
    assert times.next_after(at("2026-07-10T20:00")) == at("2026-07-13T13:30")  # Friday evening to Monday
    winter = on(times, "America/New_York", "2026-11-02")
    assert winter[0] == at("2026-11-02T14:30")


@pytest.mark.parametrize(
    "day, count",
    [("2026-03-28", 8), ("2026-03-29", 4), ("2026-10-25", 12)],  # 01:00 to 03:00: as ever, an hour less, an hour more
)
def test_a_window_is_as_long_as_the_clocks_make_it(day: str, count: int) -> None:
    times = read_times(every="15m", window=("01:00", "03:00"), tz="Europe/Berlin")
    assert len(on(times, "Europe/Berlin", day)) == count


@pytest.mark.parametrize(
    "day, opening, closing",
    [("2026-03-29", "07:30", "13:55"), ("2026-03-30", "07:30", "13:55"), ("2026-10-25", "08:30", "14:55")],
)
@pytest.mark.parametrize("rhythm", [{"every": "5m"}, {"cron": "*/5 * * * *"}])
def test_a_window_opens_by_the_clocks_on_the_day_they_change(
    rhythm: dict[str, Any], day: str, opening: str, closing: str
) -> None:
    found = on(read_times(window=("09:30", "16:00"), tz="Europe/Berlin", **rhythm), "Europe/Berlin", day)
    assert (found[0], found[-1], len(found)) == (at(f"{day}T{opening}"), at(f"{day}T{closing}"), 78)


def test_a_window_that_falls_into_the_gap_is_not_open_that_day() -> None:
    times = read_times(every="15m", window=("02:00", "03:00"), tz="Europe/Berlin")
    assert on(times, "Europe/Berlin", "2026-03-29") == []
    assert times.next_after(at("2026-03-28T12:00")) == at("2026-03-30T00:00")


def test_a_fixed_time_in_window_and_gap_fires_nevertheless() -> None:
    times = read_times(cron="30 2 * * *", window=("02:00", "03:00"), tz="Europe/Berlin")
    assert on(times, "Europe/Berlin", "2026-03-29") == [at("2026-03-29T01:00")]


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    times = read_times(every="1h", window=("22:00", "02:00"), days="fri", exclude=["2026-07-10"])
    found = times.between(at("2026-07-01T00:00"), at("2026-07-18T12:00"), 100)
    assert [fire.strftime("%d %H") for fire in found] == [
        "03 22",
        "03 23",
        "04 00",
        "04 01",
        "17 22",
        "17 23",
        "18 00",
        "18 01",
    ]


def test_excluded_days_are_local_days() -> None:
    times = read_times(cron="0 1 * * *", tz="Asia/Kolkata", exclude=["2026-12-25", (date(2026, 12, 28), "2027-01-02")])
    found = times.between(at("2026-12-22T12:00"), at("2027-01-04T12:00"), 100)
    zone = ZoneInfo("Asia/Kolkata")
    assert [fire.astimezone(zone).strftime("%m-%d") for fire in found] == [
        "12-23",
        "12-24",
        "12-26",
        "12-27",
        "01-03",
        "01-04",
    ]


def test_leap_days_are_found_and_days_that_never_come_are_not() -> None:
    assert read_times(cron="0 0 29 2 *").next_after(at("2024-02-29T00:00")) == at("2028-02-29T00:00")
    assert read_times(cron="0 0 29 2 *", days="sun").next_after(at("2024-02-29T00:00")) is None
    assert read_times(every="7d", days="mon").next_after(at("2026-01-01T00:00")) is None  # 1970 began on a Thursday
    assert read_times(every="1s", exclude=[("2026-01-01", "2099-01-01")]).next_after(at("2026-01-01T00:00")) is None


@pytest.mark.parametrize(
    "times",
    [
        read_times(cron="* * * * * *", exclude=[("2026-01-01", "2099-01-01")], tz="Europe/Berlin"),
        read_times(cron="0-59 0-22 * * *", exclude=[("2026-01-01", "2099-01-01")], tz="Europe/Berlin"),
        read_times(every="1s", exclude=[("2026-01-01", "2099-01-01")], tz="Europe/Berlin"),
        read_times(cron="0 0 * 2 mon#5", tz="Europe/Berlin"),
        read_times(cron="*/5 * 29 2 *", days="mon", tz="Europe/Berlin"),
    ],
)
def test_what_never_fires_is_known_soon(times: Times) -> None:
    begun = time.process_time()
    assert times.next_after(at("2026-01-01T00:00")) is None
    assert time.process_time() - begun < 0.5  # 30 ms as a rule


@pytest.mark.parametrize(
    "line, hours, count",
    [
        ("0 * * * *", 5, 5),
        ("0 * * * *", 25, 25),
        ("*/5 * * * *", 5, 60),
        ("*/5 * * * *", 25, 300),
        ("0 3 * * *", 25, 1),
    ],
)
def test_what_was_missed_in_an_outage_is_counted_exactly(line: str, hours: int, count: int) -> None:
    after = at("2026-05-05T12:00")
    assert len(read_times(cron=line).between(after, after + hours * HOUR, 1_000)) == count


def test_the_end_is_included_and_the_beginning_is_not() -> None:
    times = read_times(cron="0 * * * *")
    assert times.between(at("2026-05-05T12:00"), at("2026-05-05T14:00"), 9) == [
        at("2026-05-05T13:00"),
        at("2026-05-05T14:00"),
    ]
    assert times.between(at("2026-05-05T12:00"), at("2026-05-05T14:00"), 0) == []
    assert times.between(at("2026-05-05T14:00"), at("2026-05-05T12:00"), 9) == []


# ---- jitter


@steady
@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - timezones adds it
    st.text(max_size=20),
    st.integers(0, 86_400_000),
)
def test_jitter_is_the_same_for_everybody_and_within_its_bound(moment: datetime, name: str, jitter_ms: int) -> None:
    times = read_times(every="1h", jitter=timedelta(milliseconds=jitter_ms))
    fired = times.jittered(moment, name)
    assert timedelta(0) <= fired - moment <= timedelta(milliseconds=jitter_ms)
    again = read_times(every="1h", jitter=timedelta(milliseconds=jitter_ms))
    assert fired == again.jittered(moment.astimezone(ZoneInfo("Asia/Tokyo")), name)


def test_jitter_spreads_schedules_and_fires_apart() -> None:
    times = read_times(every="1h", jitter="10m")
    moment = at("2026-05-05T12:00")
    assert len({times.jittered(moment, f"schedule-{n}") for n in range(100)}) > 95
    delays = [times.jittered(moment + n * HOUR, "one") - (moment + n * HOUR) for n in range(400)]
    assert sum(delays, timedelta()) / 400 == pytest.approx(timedelta(minutes=5), abs=timedelta(seconds=40))
    assert read_times(every="1h").jittered(moment, "one") == moment


# ---- what people write


@pytest.mark.parametrize(
    "alias, line",
    [("@daily", "0 0 * * *"), (" @Hourly ", "0 * * * *"), ("@weekly", "0 0 * * 0"), ("0  3\t* * *", "0 3 * * *")],
)
def test_names_and_blanks_are_read(alias: str, line: str) -> None:
    assert read_times(cron=alias) == read_times(cron=line)


@pytest.mark.parametrize(
    "times, text",
    [
        (
            read_times(every="5m", window=("09:30", "16:00"), days="mon-fri", tz="America/New_York"),
            "every 5 min, 09:30-16:00 mon-fri America/New_York",
        ),
        (read_times(cron="30 2 * * *", tz="Europe/Berlin"), "at 02:30 every day, Europe/Berlin"),
        (read_times(every="1h 30m", days=["sat", "sun"]), "every 1 h 30 min, sat,sun UTC"),
        (
            read_times(cron="@hourly", exclude=["2026-12-25", ("2026-12-30", "2027-01-01")], jitter="90s"),
            "at the start of every hour, UTC, not on 2026-12-25, 2026-12-30 to 2027-01-01, up to 1 min 30 s later",
        ),
    ],
)
def test_times_are_described_in_words(times: Times, text: str) -> None:
    assert times.describe() == text


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, 'times: expected either cron or every, got neither; write cron="0 3 * * *" or every="5m"'),
        (
            {"cron": "* * * * *", "every": "5m"},
            "times: expected either cron or every, got cron='* * * * *' and every='5m'",
        ),
        ({"cron": "60 * * * *"}, "got '60 * * * *': bad minute"),
        ({"cron": "0 0 30 2 *"}, "got '0 0 30 2 *': bad day-of-month"),
        ({"cron": "* * * * * * * *"}, "got '* * * * * * * *': wrong number of fields"),
        ({"cron": ""}, "got '': wrong number of fields"),
        ({"cron": "@reboot"}, "got '@reboot': wrong number of fields"),
        ({"cron": "1--100000000 * * * *"}, "bad minute"),
        ({"cron": "* " * 500_000}, "in at most 256 characters, got '* * *"),
        ({"cron": 5}, "in at most 256 characters, got 5"),
        ({"every": "soon"}, 'every: expected seconds as a number, a timedelta, or text like "90s"'),
        ({"every": "999ms"}, "every: expected from 1 second to 366 days, got '999ms'"),
        ({"every": "53w"}, "every: expected from 1 second to 366 days, got '53w'"),
        ({"every": "5m", "jitter": "2d"}, "jitter: expected at most a day, got '2d'"),
        ({"every": "5m", "tz": "Berlin"}, "tz: expected the IANA name of a time zone"),
        ({"every": "5m", "tz": "../../etc/passwd"}, "tz: expected the IANA name of a time zone"),
        ({"every": "5m", "tz": "America"}, "tz: expected the IANA name of a time zone"),
        ({"every": "5m", "tz": None}, "tz: expected the IANA name of a time zone"),
        ({"every": "5m", "window": "09:30-16:00"}, "window: expected two local times"),
        ({"every": "5m", "window": ("9:30", "16:00")}, "got '9:30'; write hours and minutes with two digits each"),
        ({"every": "5m", "window": ("09:30", "24:01")}, "got '24:01'; write hours and minutes"),
        ({"every": "5m", "window": ("09:30", "09:30")}, "which is never open; leave window out for the whole day"),
        ({"every": "5m", "window": ("24:00", "06:00")}, "which is never open"),
        ({"every": "5m", "days": "weekdays"}, "days: expected weekdays, such as"),
        ({"every": "5m", "days": "mon-"}, "days: expected weekdays, such as"),
        ({"every": "5m", "days": []}, "days: expected weekdays, such as"),
        ({"every": "5m", "days": [1, 2]}, "days: expected weekdays, such as"),
        ({"every": "5m", "exclude": "2026-12-25"}, "exclude: expected a sequence of dates"),
        ({"every": "5m", "exclude": ["25.12.2026"]}, 'exclude: expected a date written "2026-12-25"'),
        ({"every": "5m", "exclude": [at("2026-12-25T00:00")]}, 'exclude: expected a date written "2026-12-25"'),
        ({"every": "5m", "exclude": [("2026-12-25", "2026-12-24")]}, "the first date before the last"),
        ({"every": "5m", "exclude": [("2026-12-25",)]}, "exclude: expected a date or a pair of first and last date"),
        ({"every": "5m", "exclude": ["2026-12-25"] * 1_001}, "exclude: expected at most 1000 entries, got 1001"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_times(**given)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


@steady
@given(st.text(alphabet="0123456789*/,-#LWMONSU @", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        times = read_times(cron=text, tz="Europe/Berlin")
    except InvalidValue:
        return
    fire = times.next_after(at("2026-01-01T00:00"))
    assert fire is None or fire <= at("2026-01-01T00:00") + HORIZON + DAY
    assert times.describe()


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), datetime(9995, 1, 1, tzinfo=UTC), "now"])  # noqa: DTZ001 - refused
def test_moments_that_cannot_be_counted_from_are_refused(moment: Any) -> None:
    with pytest.raises(InvalidValue, match="moment: expected a"):
        read_times(every="5m").next_after(moment)
