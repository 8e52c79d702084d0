"""Opening hours, and the maintenance told with them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidValue
from holdfast.hours import Maintenance, read_hours, read_maintenance

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "given, moment, until",
    [
        ({"window": ("02:00", "04:00")}, "2026-05-05T01:59:59", None),
        ({"window": ("02:00", "04:00")}, "2026-05-05T02:00", "2026-05-05T04:00"),
        ({"window": ("02:00", "04:00")}, "2026-05-05T03:59:59.5", "2026-05-05T04:00"),
        ({"window": ("02:00", "04:00")}, "2026-05-05T04:00", None),
        # Over midnight, of Friday.
        ({"window": ("22:00", "06:00"), "days": "fri"}, "2026-07-03T23:00", "2026-07-04T06:00"),
        ({"window": ("22:00", "06:00"), "days": "fri"}, "2026-07-04T05:00", "2026-07-04T06:00"),
        ({"window": ("22:00", "06:00"), "days": "fri"}, "2026-07-03T05:00", None),
        # Whole days, which follow each other without a pause.
        ({"days": "sat,sun"}, "2026-07-04T12:00", "2026-07-06T00:00"),
        ({"dates": [("2026-12-24", "2026-12-26")]}, "2026-12-24T00:00", "2026-12-27T00:00"),
        ({"dates": ["2026-12-24"], "days": "sun"}, "2026-12-24T00:00", None),
        ({"window": ("00:00", "24:00"), "days": "mon"}, "2026-07-06T00:00", "2026-07-07T00:00"),
        # The clocks go forward, and back: 01:30 comes twice, and each time it is maintenance.
        ({"window": ("01:30", "03:30"), "tz": "Europe/Berlin"}, "2026-03-29T00:30", "2026-03-29T01:30"),
        ({"window": ("01:30", "02:30"), "tz": "Europe/Berlin"}, "2026-03-29T00:45", "2026-03-29T01:00"),
        ({"window": ("01:30", "03:30"), "tz": "Europe/Berlin"}, "2026-10-24T23:30", "2026-10-25T02:30"),
        ({"window": ("01:00", "02:00"), "tz": "America/New_York"}, "2026-11-01T05:30", "2026-11-01T07:00"),
        ({"window": ("01:00", "01:30"), "tz": "America/New_York"}, "2026-11-01T05:40", None),
        ({"window": ("01:00", "01:30"), "tz": "America/New_York"}, "2026-11-01T06:10", "2026-11-01T06:30"),
    ],
)
def test_maintenance_holds_until_it_ends(given: dict[str, Any], moment: str, until: str | None) -> None:
    expected = None if until is None else at(until)
    assert read_maintenance(**given).holds_at(at(moment)) == expected


def test_maintenance_without_an_end_is_asked_about_again() -> None:
    until = read_maintenance(days="mon-sun").holds_at(at("2026-05-05T12:00"))
    assert until is not None
    assert until > at("2027-05-05T12:00")


@steady
@given(
    st.sampled_from([None, ("01:30", "02:30"), ("22:00", "06:00"), ("00:00", "24:00")]),
    st.sampled_from(["sun", "mon-fri", "sat-mon"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - timezones adds it
)
def test_it_holds_up_to_the_end_it_names_and_not_beyond(window: Any, days: str, tz: str, moment: datetime) -> None:
    maintenance = read_maintenance(window, days, tz)
    until = maintenance.holds_at(moment)
    if until is None:
        return
    assert until > moment
    assert maintenance.holds_at(until) is None
    assert maintenance.holds_at(until - timedelta(seconds=1)) == until
    assert maintenance.holds_at(moment + (until - moment) / 2) == until


def test_maintenance_comes_back_from_json_and_is_described() -> None:
    maintenance = read_maintenance(("02:00", "04:00"), "sun", "Europe/Berlin", ["2026-12-27"])
    assert msgspec.json.decode(msgspec.json.encode(maintenance), type=Maintenance) == maintenance
    assert maintenance.describe() == "02:00-04:00 sun on 2026-12-27 Europe/Berlin"


def test_maintenance_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidValue, match="maintenance: expected a window, days or dates, got none of them"):
        read_maintenance(tz="Europe/Berlin")
    with pytest.raises(InvalidValue, match="moment: expected a datetime with a time zone"):
        read_maintenance(days="sun").holds_at(datetime(2026, 1, 1))  # noqa: DTZ001 - refused for that


@pytest.mark.parametrize(
    "days, text",
    [
        ("mon-fri", "mon-fri UTC"),
        ("Mon, Wednesday ,fri", "mon,wed,fri UTC"),
        ("fri-mon", "mon,fri,sat,sun UTC"),
        (["sun", "sat"], "sat,sun UTC"),
        ("mon-sun", "mon-sun UTC"),
    ],
)
def test_weekdays_are_read_and_written(days: Any, text: str) -> None:
    assert read_hours(days=days).describe() == text


def test_ranges_that_overlap_are_one() -> None:
    hours = read_hours(exclude=[("2026-01-05", "2026-01-09"), "2026-01-07", ("2026-01-01", "2026-01-05"), "2026-02-01"])
    assert hours.describe() == "UTC, not on 2026-01-01 to 2026-01-09, 2026-02-01"
    assert not hours.always
    assert read_hours().always
