"""Opening hours in local time: a window of the day, weekdays, dates; and the maintenance that is told with them.

A window belongs to the day on which it opens: of `("22:00", "06:00")` on `"fri"`, Saturday 05:00 is still part.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec

from holdfast.errors import InvalidValue, shown
from holdfast.formats import Format, text_format
from holdfast.zones import forward, read_zone, wall_time

Window = tuple[str, str]
Days = str | Sequence[str]
Day = str | date
Dates = Iterable[Day | tuple[Day, Day]]
Spans = tuple[tuple[date, date], ...]
"""Ranges of dates, both ends included, in order and apart from each other."""

DAY_MINUTES = 24 * 60
MOST_DATES = 1_000
_DAY = timedelta(days=1)
_LONGEST_DAYS = 100
_LONGEST_HOLD = 400
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)


class Hours(msgspec.Struct, frozen=True, omit_defaults=True):
    """When something is open, by the clocks of `tz`; what is None or empty does not narrow it.

    `window` counts minutes of the day, the end excluded; `days` counts from Monday, 0. It opens on `dates` only.
    """

    tz: str = "UTC"
    window: tuple[int, int] | None = None
    days: tuple[int, ...] | None = None
    dates: Spans | None = None
    exclude: Spans = ()

    @property
    def zone(self) -> ZoneInfo:
        """The time zone, ready to count with."""
        return ZoneInfo(self.tz)

    @property
    def always(self) -> bool:
        """Whether it never closes."""
        return self.window is None and self.days is None and self.dates is None and not self.exclude

    def covers(self, wall: datetime) -> bool:
        """Whether it is open when the clocks show this time."""
        day = wall.date()
        if self.window is not None:
            start, end = self.window
            minute = wall.hour * 60 + wall.minute
            if start > end and minute < end:
                day -= _DAY
            elif not (start <= minute < end if start < end else start <= minute):
                return False
        return self._opens_on(day)

    def reopens(self, wall: datetime) -> datetime:
        """The next time on the clocks at which a closed door may open: that day's window, else the next midnight."""
        midnight = datetime.combine(wall.date(), time())
        opening = midnight + timedelta(minutes=self.window[0] if self.window else 0)
        return opening if wall < opening else midnight + _DAY

    def closes(self, wall: datetime) -> datetime:
        """The next time on the clocks at which an open door closes."""
        start, end = self.window or (0, DAY_MINUTES)
        midnight = datetime.combine(wall.date(), time())
        if start > end and wall >= midnight + timedelta(minutes=start):
            midnight += _DAY
        return midnight + timedelta(minutes=end)

    def describe(self) -> str:
        """Say it in short: `09:30-16:00 mon-fri America/New_York`."""
        parts = []
        if self.window:
            parts.append("-".join(window_texts(self.window)))
        if self.days:
            parts.append(days_text(self.days))
        if self.dates is not None:
            parts.append(f"on {_dates_text(self.dates)}")
        parts.append(self.tz)
        text = " ".join(parts)
        return f"{text}, not on {_dates_text(self.exclude)}" if self.exclude else text

    def _opens_on(self, day: date) -> bool:
        if self.days is not None and day.weekday() not in self.days:
            return False
        return (self.dates is None or _within(day, self.dates)) and not _within(day, self.exclude)


class Maintenance(msgspec.Struct, frozen=True):
    """The hours in which nothing new is started."""

    hours: Hours

    def holds_at(self, moment: datetime) -> datetime | None:
        """Until when maintenance lasts that is under way at a moment; None when there is none."""
        if moment.tzinfo is None:
            message = f"moment: expected a datetime with a time zone, got {shown(moment)}; add tzinfo=UTC"
            raise InvalidValue(message)
        zone, until = self.hours.zone, moment.astimezone(UTC)
        held = False
        for _ in range(_LONGEST_HOLD):  # windows that touch are one; what never ends is asked about again
            wall = wall_time(until, zone)
            if not self.hours.covers(wall):
                break
            held = True
            until = forward(until, self.hours.closes(wall) - wall, zone)
        return until if held else None

    def describe(self) -> str:
        """Say it in short: `02:00-04:00 sun Europe/Berlin`."""
        return self.hours.describe()


def read_maintenance(
    window: Window | None = None, days: Days | None = None, tz: str = "UTC", dates: Dates | None = None
) -> Maintenance:
    """Describe maintenance: a window of the day or whole days, on weekdays, on dates, or both."""
    if window is None and days is None and dates is None:
        message = 'maintenance: expected a window, days or dates, got none of them; write window=("02:00", "04:00")'
        raise InvalidValue(message)
    return Maintenance(read_hours(window, days, tz, dates=dates))


def read_hours(
    window: Window | None = None,
    days: Days | None = None,
    tz: str = "UTC",
    *,
    dates: Dates | None = None,
    exclude: Dates = (),
) -> Hours:
    """Read opening hours as people write them."""
    return Hours(
        tz=read_zone(tz).key,
        window=None if window is None else _read_window(window),
        days=None if days is None else _read_days(days),
        dates=None if dates is None else _read_dates(dates, "dates"),
        exclude=_read_dates(exclude, "exclude"),
    )


def _read_window(window: Window) -> tuple[int, int]:
    expected = 'window: expected two local times, such as ("09:30", "16:00")'
    if isinstance(window, str) or not isinstance(window, Sequence) or len(window) != 2:  # noqa: PLR2004 - a pair
        message = f"{expected}, got {shown(window)}"
        raise InvalidValue(message)
    start, end = (_read_clock(clock, expected) for clock in window)
    if start in (end, DAY_MINUTES):
        message = f"{expected}, got {shown(window)}, which is never open; leave window out for the whole day"
        raise InvalidValue(message)
    return start, end


def _read_clock(clock: str, expected: str) -> int:
    if not isinstance(clock, str) or not _CLOCK.fullmatch(clock):
        message = f"{expected}, got {shown(clock)}; write hours and minutes with two digits each, from 00:00 to 24:00"
        raise InvalidValue(message)
    return int(clock[:2]) * 60 + int(clock[3:])


def _read_days(days: Days) -> tuple[int, ...]:
    written = [days] if isinstance(days, str) else days
    if not isinstance(written, Sequence) or not all(isinstance(part, str) for part in written):
        raise _wrong_days(days)
    text = ",".join(written).lower()
    if len(text) > _LONGEST_DAYS:
        raise _wrong_days(days)
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        start, end = _weekday(first), _weekday(last if dash else first)
        if start is None or end is None:
            raise _wrong_days(days)
        chosen.update(day % 7 for day in range(start, end + 1 if start <= end else end + 8))
    return tuple(sorted(chosen))


def _weekday(text: str) -> int | None:
    if text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    return _NAMES.index(text) if text in _NAMES else None


def _wrong_days(days: Days) -> InvalidValue:
    return InvalidValue(f'days: expected weekdays, such as "mon-fri" or "mon,wed,fri", got {shown(days)}')


def _read_dates(dates: Dates, what: str) -> Spans:
    if isinstance(dates, str) or not isinstance(dates, Iterable):
        message = f'{what}: expected a sequence of dates, such as ["2026-12-25"], got {shown(dates)}'
        raise InvalidValue(message)
    spans = sorted(_read_span(entry, what) for entry in dates)
    if len(spans) > MOST_DATES:
        message = f"{what}: expected at most {MOST_DATES} entries, got {len(spans)}; join neighbours to ranges"
        raise InvalidValue(message)
    merged: list[tuple[date, date]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _read_span(entry: Day | tuple[Day, Day], what: str) -> tuple[date, date]:
    if isinstance(entry, str | date):
        day = _read_day(entry, what)
        return day, day
    if not isinstance(entry, Sequence) or len(entry) != 2:  # noqa: PLR2004 - a pair
        message = f'{what}: expected a date or a pair of first and last date, such as ("2026-12-24", "2027-01-01"), '
        message += f"got {shown(entry)}"
        raise InvalidValue(message)
    first, last = _read_day(entry[0], what), _read_day(entry[1], what)
    if last < first:
        message = f"{what}: expected the first date before the last, got {shown(entry)}; exchange them"
        raise InvalidValue(message)
    return first, last


def _read_day(day: Day, what: str) -> date:
    if isinstance(day, date) and not isinstance(day, datetime):
        return day
    if isinstance(day, str):
        try:
            return datetime.strptime(day, "%Y-%m-%d").date()  # noqa: DTZ007 - a date alone has no zone
        except ValueError:
            pass
    message = f'{what}: expected a date written "2026-12-25", got {shown(day)}'
    raise InvalidValue(message)


def _within(day: date, spans: Spans) -> bool:
    at = bisect_right(spans, day, key=lambda span: span[0])
    return at > 0 and day <= spans[at - 1][1]


def days_text(days: tuple[int, ...]) -> str:
    """Write weekdays as people do: `mon-fri`."""
    names = [_WEEKDAYS[day] for day in days]
    if len(days) > 2 and all(later == day + 1 for day, later in pairwise(days)):  # noqa: PLR2004 - two are listed
        return f"{names[0]}-{names[-1]}"
    return ",".join(names)


def window_texts(window: tuple[int, int]) -> list[str]:
    """Write a window as people do: `09:30` and `16:00`."""
    return [f"{minutes // 60:02}:{minutes % 60:02}" for minutes in window]


def _dates_text(spans: Spans) -> str:
    texts = [start.isoformat() if start == end else f"{start} to {end}" for start, end in spans[:3]]
    return ", ".join(texts) + (f" and {len(spans) - 3} more" if len(spans) > len(texts) else "")


def _time_of_day(value: Any, what: str, last: str = "23:59") -> None:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value) or value > last:
        message = f'{what}: expected a time of day like "08:00", got {shown(value)}'
        raise InvalidValue(message)


def _weekdays(value: Any, _what: str) -> Any:
    _read_days(value)
    return value


def _dates(value: Any, what: str) -> Any:
    _read_span(value, what)
    return value


_DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_STRING = {"type": "string"}

TimeOfDay = Annotated[str, text_format(_time_of_day, "^([01][0-9]|2[0-3]):[0-5][0-9]$")]
ClosingTime = Annotated[
    str,
    text_format(lambda value, what: _time_of_day(value, what, "24:00"), "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"),
]
Weekdays = Annotated[Days, Format(_weekdays, {"anyOf": [_STRING, {"type": "array", "items": _STRING}]})]
DateOrSpan = Annotated[Day | tuple[Day, Day], Format(_dates, {"anyOf": [_DATE, {"type": "array", "items": _DATE}]})]
"""Types of settings; the configuration file is checked with them."""
