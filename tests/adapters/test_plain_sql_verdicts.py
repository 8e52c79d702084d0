"""`enqueue_v1` and Python take the same jobs: one table of cases, and two verdicts on each."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import names, payload
from holdfast.duration import timeout_ms
from holdfast.errors import ArgumentError, InvalidValue
from holdfast.tasks.options import read_options

HUNDRED_YEARS = 3_153_600_000_000
DEEP: Any = 1
for _ in range(62):
    DEEP = [DEEP]


def option(name: str) -> Callable[[Any], object]:
    return lambda value: read_options({name: value})  # type: ignore[misc]  # the name is a value here


def duration(name: str) -> Callable[[Any], object]:
    return lambda value: option(name)(timedelta(milliseconds=whole(value)))


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue
    return value


def moment(value: Any) -> object:
    return option("run_at")(datetime.fromisoformat(value))


CHECKS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "kind": (
        lambda value: names.name(value, "kind"),
        ["k", "K.a:b-c_1", "k" * 64, "k" * 65, "", " k", "k ", "k\n", "größe", "a/b", 5, True, ["k"], {"k": 1}],
    ),
    "queue": (
        option("queue"),
        ["q", "Q", "q" * 64, "q" * 65, "", "a b", "q\n", 5, 1.5, False, [], {}],
    ),
    "priority": (option("priority"), [0, 5, 10, -1, 11, 5.0, 4.5, "5", True, [], 10**30, 1e300]),
    "run_at": (
        moment,
        [
            "2030-01-01T00:00:00Z",
            "2030-01-01T00:00:00+02:00",
            "2030-01-01 00:00:00.123456+0530",
            "2030-01-01T00:00Z",
            "1970-01-01T00:00:00Z",
            "9998-12-31T23:59:59.999999Z",
            "1969-12-31T23:59:59Z",
            "9999-01-01T00:00:00Z",
            "2030-01-01T00:00:00",
            "2030-13-01T00:00:00Z",
            "2030-02-30T00:00:00Z",
            "2030-01-01T25:00:00Z",
            "tomorrow",
            "now",
            "today",
            "epoch",
            "yesterday",
            "infinity",
            "-infinity",
            "allballs",
            "Jan 1 2030 00:00:00 UTC",
            "2030-01-01T00:00:00 Europe/Berlin",
            "20:00Z",
            "",
            "x",
            5,
            1_900_000_000,
            True,
            [],
            {},
        ],
    ),
    "delay_ms": (duration("delay"), [0, 1, HUNDRED_YEARS, HUNDRED_YEARS + 1, -1, True, [], 10**30]),
    "unique": (option("unique"), ["u", "ü" * 256, "u" * 512, "u" * 513, "ü" * 257, "", " ", 5, True, [], {}]),
    "key": (option("key"), ["k", "ü" * 256, "k" * 512, "k" * 513, "ü" * 257, "", 5, False, [], {}]),
    "max_attempts": (option("max_attempts"), [1, 1_000_000, 1_000_001, 0, -1, 2.0, 1.5, "3", True, []]),
    "max_crashes": (option("max_crashes"), [1, 1_000_000, 1_000_001, 0, -1, 2.0, 1.5, "3", True, {}]),
    "timeout_ms": (
        lambda value: timeout_ms(timedelta(milliseconds=whole(value))),
        [1, HUNDRED_YEARS, HUNDRED_YEARS + 1, 0, -1, True, [], 10**18, 10**30],
    ),
    "tags": (
        option("tags"),
        [
            {},
            {"a": "b"},
            {"A.b:c-d_1": "x" * 512},
            {f"t{number}": "x" for number in range(32)},
            {f"t{number}": "x" for number in range(33)},
            {"a": ""},
            {"a": "x" * 513},
            {"a": "ü" * 257},
            {"a": "b", "A": "c"},
            {"": "b"},
            {"a b": "c"},
            {"a\n": "c"},
            {"a" * 65: "c"},
            {"größe": "c"},
            {"a": 5},
            {"a": None},
            {"a": ["b"]},
            {"a": {"b": "c"}},
            ["a"],
            "a",
            5,
            True,
        ],
    ),
    "actor": (option("actor"), ["a", "a" * 256, "a" * 257, "ü" * 129, "", 5, True, []]),
    "args": (
        lambda value: (
            payload.encode(value, "the arguments", most_bytes=256_000, most_depth=64)
            if isinstance(value, dict)
            else whole("no object")
        ),
        [
            {},
            {"a": 1, "b": [None, True, 1.5, "ü"]},
            {"a": DEEP},
            {"a": [[DEEP]]},
            {"a": "x" * 255_990},
            {"a": "x" * 256_000},
            {"a": 2**63},
            [],
            "x",
            5,
        ],
    ),
}
CASES = {
    f"{field} {number}": (field, value) for field, (_, values) in CHECKS.items() for number, value in enumerate(values)
}
TOGETHER: dict[str, dict[str, Any]] = {
    "run_at and delay": {"run_at": "2030-01-01T00:00:00Z", "delay_ms": 5},
    "unique_for without unique": {"unique_for_ms": 5},
    "unique_for of nothing": {"unique": "u", "unique_for_ms": 0},
    "unique_for below": {"unique": "u", "unique_for_ms": -1},
    "unique_for above": {"unique": "u", "unique_for_ms": HUNDRED_YEARS + 1},
}


@pytest.fixture(scope="module")
def connection(dsn: str) -> "Iterator[psycopg.Connection[Any]]":
    with psycopg.connect(dsn) as opened:
        yield opened


def is_taken_by_sql(connection: "psycopg.Connection[Any]", schema: str, job: dict[str, Any]) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SELECT * FROM {schema}.enqueue_v1(%s)".encode(), [json.dumps([job])])
    except psycopg.errors.InvalidParameterValue:
        return False
    return True


def is_taken_by_python(check: Callable[[Any], object], value: Any) -> bool:
    try:
        check(value)
    except (InvalidValue, ArgumentError, ValueError, TypeError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("case", CASES)
def test_each_value_has_one_verdict(connection: Any, emptied_schema: str, case: str) -> None:
    field, value = CASES[case]
    expected = is_taken_by_python(CHECKS[field][0], value)
    assert is_taken_by_sql(connection, emptied_schema, {"kind": "k", field: value}) == expected, value


@pytest.mark.parametrize("case", TOGETHER)
def test_what_excludes_each_other_is_refused(connection: Any, emptied_schema: str, case: str) -> None:
    assert not is_taken_by_sql(connection, emptied_schema, {"kind": "k", **TOGETHER[case]})


def test_the_table_has_every_field_and_both_verdicts() -> None:
    known = set(CHECKS) | {"unique_for_ms", "extra"}
    assert known == {
        *("kind", "args", "queue", "priority", "run_at", "delay_ms", "unique", "unique_for_ms", "key"),
        *("max_attempts", "max_crashes", "timeout_ms", "tags", "actor", "extra"),
    }
    for check, values in CHECKS.values():
        assert {is_taken_by_python(check, value) for value in values} == {True, False}
