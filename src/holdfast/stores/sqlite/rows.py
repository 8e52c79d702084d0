"""Rows of SQLite as values, and times as the milliseconds that rows hold."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.job import JobRow, JobState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_FIELDS = JobRow.__struct_fields__
_STATE = _FIELDS.index("state")
_TIMES = tuple(index for index, field in enumerate(_FIELDS) if field.endswith("_at") or field == "fire_time")
LIVE_COLUMNS = _FIELDS.index("finished_at")
_LIVE_TIMES = tuple(index for index in _TIMES if index < LIVE_COLUMNS)
_SURELY_EXACT_MS = 1 << 42  # a time before the year 2109, in seconds as a float, still tells the milliseconds apart
_STATES = {state.value: state for state in JobState}


def job(row: Sequence[Any]) -> JobRow:
    """Read a job; a row of the live table alone leaves out what is kept beside it."""
    values = list(row)
    del values[len(_FIELDS) :]  # a newer schema may have more columns, which only ever follow the known ones
    values[_STATE] = _STATES[values[_STATE]]
    for index in _LIVE_TIMES if len(values) == LIVE_COLUMNS else _TIMES:
        if values[index] is not None:
            values[index] = moment(values[index])
    return JobRow(*values)


def state(text: str) -> JobState:
    """Read a state."""
    return _STATES[text]


def moment(milliseconds: int) -> datetime:
    """Read a time."""
    if 0 <= milliseconds < _SURELY_EXACT_MS:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    return _EPOCH + timedelta(milliseconds=milliseconds)


def exact_moment(microseconds: int) -> datetime:
    """Read a time that is kept more exactly than others."""
    return _EPOCH + timedelta(microseconds=microseconds)


def optional_moment(milliseconds: int | None) -> datetime | None:
    """Read a time that may be missing."""
    return None if milliseconds is None else moment(milliseconds)


def milliseconds(at: datetime) -> int:
    """Write a time."""
    return (at - _EPOCH) // _MILLISECOND
