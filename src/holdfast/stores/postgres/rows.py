"""Rows of PostgreSQL as values."""

from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec

from holdfast.errors import DataRefused
from holdfast.job import JobRow, JobState
from holdfast.stores.values import Refusal

Row = asyncpg.Record
LIVE_COLUMNS = 42
ALL_COLUMNS = 50
_STATE = JobRow.__struct_fields__.index("state")
_STATES = {state.value: state for state in JobState}


def job(row: Sequence[Any]) -> JobRow:
    """Read a job; a newer schema may have more columns, which only ever follow the known ones."""
    values = list(row)
    values[_STATE] = _STATES[values[_STATE]]
    return JobRow(*values)


def json_text(value: object) -> str:
    """Write JSON for a parameter; what has no UTF-8 is refused as the server would."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError as error:
        message = f"PostgreSQL refuses a value: {error}"
        raise DataRefused(message) from error


def refusal(detail: str | None) -> Refusal | None:
    """Read why a rate limit refused a job."""
    return None if detail is None else msgspec.json.decode(detail, type=Refusal)


def or_empty(values: list[object]) -> list[object]:
    """Leave out values that are all null: `unnest` fills short arrays up with nulls."""
    return [] if values.count(None) == len(values) else values


def once(values: list[object]) -> list[object]:
    """Leave out what is the same as the first value, where it is the same for all."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def state(text: str) -> JobState:
    """Read a state."""
    return _STATES[text]
