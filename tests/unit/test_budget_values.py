"""The values of budgets: periods in a time zone, keys, levels, and what a handler sees."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from holdfast.job import JobRow, JobState
from holdfast.policies.allowance import Allowance, level_of
from holdfast.policies.budgets import period_around
from holdfast.policies.keys import key_of, key_path, shown_key, stored_key

NEW_YORK = "America/New_York"
THRESHOLDS = ((750_000, "reduce"), (800_000, "alert"), (900_000, "defer"), (1_000_000, "stop"))


@pytest.mark.parametrize(
    "period, tz, starts, ends",
    [
        ("day", NEW_YORK, "2027-03-14T05:00Z", "2027-03-15T04:00Z"),  # 23 hours
        ("day", NEW_YORK, "2027-11-07T04:00Z", "2027-11-08T05:00Z"),  # 25 hours
        ("month", NEW_YORK, "2027-03-01T05:00Z", "2027-04-01T04:00Z"),
        ("month", NEW_YORK, "2027-11-01T04:00Z", "2027-12-01T05:00Z"),
        ("month", "UTC", "2027-12-01T00:00Z", "2028-01-01T00:00Z"),
        ("month", "UTC", "2028-02-01T00:00Z", "2028-03-01T00:00Z"),
        ("day", "America/Havana", "2027-03-14T05:00Z", "2027-03-15T04:00Z"),  # which begins at one o'clock
        ("day", "Pacific/Apia", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),  # after which a whole day is missing
        ("day", "Pacific/Apia", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),
    ],
)
def test_a_period_begins_at_midnight_whatever_clocks_do(period: str, tz: str, starts: str, ends: str) -> None:
    first, last = datetime.fromisoformat(starts), datetime.fromisoformat(ends)
    instant = timedelta(milliseconds=1)
    for moment in (first, first + (last - first) / 2, last - instant):
        assert period_around(moment, period, tz) == (first, last), moment
    assert period_around(last, period, tz)[0] == last
    assert period_around(first - instant, period, tz)[1] == first


@pytest.mark.parametrize(
    "path, expected",
    [
        ((), ""),
        (("kind",), "work"),
        (("actor",), ""),
        (("payload", "tenant"), "acme"),
        (("payload", "deep", "1", "x"), "7"),
        (("payload", "deep", "5"), ""),
        (("payload", "tenant", "more"), ""),
        (("payload", "none"), ""),
        (("payload", "flag"), "true"),
        (("tags", "a.b"), "c"),
        (("payload", "long"), "#"),  # and its digest
    ],
)
def test_the_key_of_a_job(path: tuple[str, ...], expected: str) -> None:
    payload = '{"tenant": "acme", "deep": [0, {"x": 7}], "flag": true, "none": null, "long": "' + "x" * 300 + '"}'
    given = {
        "kind": "work",
        "queue": "q",
        "state": JobState.QUEUED,
        "payload_json": payload,
        "tags_json": '{"a.b": "c"}',
    }
    job = JobRow(**(dict.fromkeys(JobRow.__struct_fields__) | given))  # type: ignore[arg-type] # what is looked at is there
    key = key_of(path, job)
    assert key.startswith(expected) if expected == "#" else key == expected
    assert len(key) <= 200


@pytest.mark.parametrize("expression", ["args.tenant", "payload.tenant"])
def test_an_expression_is_published_as_the_last_release_writes_it(expression: str) -> None:
    """Programs of both releases read each other's definitions during an upgrade; people read the new word."""
    path = key_path(expression)
    assert (stored_key(path), shown_key(path)) == ("payload.tenant", "args.tenant")
    assert (stored_key(()), shown_key(())) == (None, None)
    assert shown_key(key_path("tags.tenant")) == "tags.tenant"


@pytest.mark.parametrize(
    "spent, level", [(0, "normal"), (74, "normal"), (75, "reduce"), (85, "reduce"), (95, "defer"), (100, "stop")]
)
def test_the_level_is_the_strongest_action_that_was_reached(spent: int, level: str) -> None:
    assert level_of(spent, 100, THRESHOLDS) == level


def test_what_a_handler_sees() -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    seen = Allowance(
        budget="ai",
        key="",
        unit="usd",
        level="alert",
        spent_micro=8_500_000,
        reserved_micro=2_000_000,
        ceiling_micro=10_000_000,
        estimate_micro=1,
        starts_at=now,
        ends_at=now,
    )
    amounts = [seen.spent, seen.reserved, seen.remaining, seen.ceiling]
    assert amounts == [Decimal(text) for text in ("8.5", "2", "-0.5", "10")]
    assert (seen.share, seen.estimate) == (0.85, Decimal("0.000001"))
    assert str(seen) == "ai: $8.50 of $10.00 spent (alert)"
