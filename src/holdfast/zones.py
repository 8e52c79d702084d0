"""From the clock on the wall to the instant and on: the one place that knows of gaps and folds.

A wall time is a datetime without a zone, as a clock in that zone shows it. In a gap (spring) it is never shown, in a
fold (autumn) it is shown twice.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from holdfast.errors import InvalidValue, shown
from holdfast.formats import text_format

_LONGEST_NAME = 64
_SECOND = timedelta(seconds=1)


def read_zone(name: str) -> ZoneInfo:
    """Find a time zone by its IANA name."""
    if isinstance(name, str) and 1 <= len(name) <= _LONGEST_NAME:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # not found, a path, or a folder such as "America"
            pass
    message = f'tz: expected the IANA name of a time zone, such as "UTC" or "Europe/Berlin", got {shown(name)}'
    raise InvalidValue(message)


def wall_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clocks of a zone show at a moment."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def instant(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The instant at which the clocks show a time first; in a gap the first instant after it.

    None when clocks skipped that whole day, as those of Apia did on 30 December 2011: there is nothing to catch up.
    """
    shown_first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_time(shown_first, zone) == wall:
        return shown_first
    # Inside a gap fold=1 counts with the later, larger offset, and so leads to an instant before the change.
    after = change(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), shown_first, zone)
    day, last, next_ = wall.date(), wall_time(after - _SECOND, zone).date(), wall_time(after, zone).date()
    return None if last < day < next_ else after


def forward(moment: datetime, by: timedelta, zone: ZoneInfo) -> datetime:
    """Go on by so much of wall time, of at most a day, but not past a change of the clocks."""
    later = moment + by
    if _offset(later, zone) == _offset(moment, zone):
        return later
    return change(moment, later, zone)


def change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first instant after `before`, and at the latest `after`, that has another offset."""
    start = before.replace(microsecond=0)  # clocks change on whole seconds
    offset = _offset(start, zone)
    low, high = 0, -((start - after) // _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(start + middle * _SECOND, zone) == offset:
            low = middle
        else:
            high = middle
    return start + high * _SECOND


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


ZoneName = Annotated[str, text_format(lambda value, _: read_zone(value))]
"""The type of a setting that is a time zone."""
