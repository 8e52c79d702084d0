"""When a schedule fires: a cron line or an interval, narrowed by opening hours.

Every process computes the same instants from the same description, whenever it asks:

- A line of fixed times follows the clocks on the wall. A time inside a gap fires at the first instant after the gap, a
  time inside a fold at its first occurrence only, and a day that the clocks skipped has no fire. So each day that the
  clocks show has one fire of a daily line; where the gap ends with the day, that one comes with the next day's first
  instant.
- A line with a star in its minutes or hours, such as `*/30 * * * *`, fires in every hour that really passes.
- An interval counts from 1970-01-01 00:00 UTC, and opening hours choose among its instants.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated

import msgspec
from cronsim import CronSim, CronSimError

from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidValue, shown
from holdfast.formats import text_format
from holdfast.hours import Dates, Days, Hours, Window, read_hours
from holdfast.zones import forward, instant, wall_time

HORIZON = timedelta(days=5 * 366)
"""How far `next_after` looks: what does not fire within five years, leap days included, never does."""

SHORTEST_EVERY_MS = 1_000
LONGEST_EVERY_MS = 366 * 86_400_000
LONGEST_JITTER_MS = 86_400_000
_LONGEST_CRON = 256
_EARLIEST_YEAR, _LATEST_YEAR = 1900, 9_990
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_START = datetime(1970, 1, 1)  # noqa: DTZ001 - a line is parsed without a zone
_MS = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_DAY_HOURS = 24
_SHARES = 2**64
_ALIASES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


class Times(msgspec.Struct, frozen=True, omit_defaults=True):
    """The times of a schedule; made by `read_times`, kept as JSON."""

    cron: str | None = None
    every_ms: int | None = None
    hours: Hours = Hours()
    jitter_ms: int = 0

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire strictly after a moment, in UTC; None when there is none within five years."""
        moment = _read_moment(moment)
        if self.cron is None:
            return self._next_interval(moment)
        return self._next_fixed(moment) if _fixed(self.cron) else self._next_starred(moment)

    def between(self, after: datetime, until: datetime, most: int) -> list[datetime]:
        """The fires after one moment and up to another, that one included; the first `most` of them."""
        until = _read_moment(until)
        fires: list[datetime] = []
        fire = self.next_after(after)
        while fire is not None and fire <= until and len(fires) < most:
            fires.append(fire)
            fire = self.next_after(fire)
        return fires

    def jittered(self, nominal: datetime, name: str) -> datetime:
        """When the fire of a schedule really happens: up to the jitter later, the same for everybody who asks."""
        seed = f"{name}\0{(_read_moment(nominal) - _EPOCH) // _MS}".encode()
        share = int.from_bytes(hashlib.sha256(seed).digest()[:8])
        return nominal + share * self.jitter_ms // _SHARES * _MS

    def describe(self) -> str:
        """Say it in short: `every 5 min, 09:30-16:00 mon-fri America/New_York`."""
        if self.cron is None:
            rhythm = f"every {_span(self.every_ms or 0)}"
        else:
            explained = str(_parsed(self.cron).explain())
            rhythm = explained[:1].lower() + explained[1:]
        text = f"{rhythm}, {self.hours.describe()}"
        return f"{text}, up to {_span(self.jitter_ms)} later" if self.jitter_ms else text

    def _next_interval(self, moment: datetime) -> datetime | None:
        zone, step = self.hours.zone, (self.every_ms or 0) * _MS
        fire = _EPOCH + ((moment - _EPOCH) // step + 1) * step
        end = moment + HORIZON
        while fire <= end:
            wall = wall_time(fire, zone)
            if self.hours.covers(wall):
                return fire
            reopened = forward(fire, self.hours.reopens(wall) - wall, zone)
            fire = _EPOCH - (_EPOCH - reopened) // step * step  # rounded up
        return None

    def _next_fixed(self, moment: datetime) -> datetime | None:
        """Go along the clocks on the wall, as if there were neither gap nor fold, then look when each time came."""
        zone = self.hours.zone
        wall = wall_time(moment, zone).replace(microsecond=0)
        end = wall + HORIZON
        line = CronSim(self.cron or "", wall)
        while (nominal := next(line, None)) is not None and nominal <= end:
            if not self.hours.covers(nominal):
                line = CronSim(self.cron or "", self.hours.reopens(nominal) - _SECOND)
                continue
            fire = instant(nominal, zone)
            if fire is not None and fire > moment:  # in a gap several times come at one instant
                return fire
        return None

    def _next_starred(self, moment: datetime) -> datetime | None:
        """Go along real time, hop by hop, and compare what the clocks show."""
        zone, line = self.hours.zone, _parsed(self.cron or "")
        fire = moment.replace(microsecond=0) + _SECOND
        end = moment + HORIZON
        while fire <= end:
            hop = self._hop(line, wall_time(fire, zone))
            if hop is None:
                return fire
            fire = forward(fire, hop, zone)
        return None

    def _hop(self, line: CronSim, wall: datetime) -> timedelta | None:
        """How far it is to the next time that may fit; None when this one does."""
        past_hour = timedelta(minutes=wall.minute, seconds=wall.second)
        if wall.month not in line.months or not line.match_day(wall.date()):
            return timedelta(hours=_DAY_HOURS - wall.hour) - past_hour
        if not self.hours.covers(wall):
            return self.hours.reopens(wall) - wall
        if wall.hour not in line.hours:
            return timedelta(hours=1) - past_hour
        if wall.minute not in line.minutes:
            return timedelta(minutes=1, seconds=-wall.second)
        if wall.second not in line.seconds:
            return timedelta(seconds=min((at for at in line.seconds if at > wall.second), default=60) - wall.second)
        return None


def read_times(
    cron: str | None = None,
    every: Duration | None = None,
    window: Window | None = None,
    days: Days | None = None,
    tz: str = "UTC",
    *,
    exclude: Dates = (),
    jitter: Duration | None = None,
) -> Times:
    """Describe when a schedule fires: by a cron line or by an interval, within opening hours."""
    if (cron is None) == (every is None):
        got = "neither" if cron is None else f"cron={shown(cron)} and every={shown(every)}"
        message = f'times: expected either cron or every, got {got}; write cron="0 3 * * *" or every="5m"'
        raise InvalidValue(message)
    return Times(
        cron=None if cron is None else _read_cron(cron),
        every_ms=None if every is None else _read_every(every),
        hours=read_hours(window, days, tz, exclude=exclude),
        jitter_ms=0 if jitter is None else _read_jitter(jitter),
    )


def _read_cron(cron: str) -> str:
    expected = "cron: expected five fields (minute hour day month weekday), six with the second first, or @daily"
    if not isinstance(cron, str) or len(cron) > _LONGEST_CRON:
        message = f"{expected}, in at most {_LONGEST_CRON} characters, got {shown(cron)}"
        raise InvalidValue(message)
    line = " ".join(cron.split())
    line = _ALIASES.get(line.lower(), line)
    try:
        _parsed(line)
    except CronSimError as error:
        message = f"{expected}, got {shown(cron)}: {str(error).lower()}"
        raise InvalidValue(message) from error
    return line


def _read_every(every: Duration) -> int:
    every_ms = milliseconds(every, "every")
    if not SHORTEST_EVERY_MS <= every_ms <= LONGEST_EVERY_MS:
        message = f"every: expected from 1 second to 366 days, got {shown(every)}"
        raise InvalidValue(message)
    return every_ms


def _read_jitter(jitter: Duration) -> int:
    jitter_ms = milliseconds(jitter, "jitter")
    if jitter_ms > LONGEST_JITTER_MS:
        message = f"jitter: expected at most a day, got {shown(jitter)}"
        raise InvalidValue(message)
    return jitter_ms


def _read_moment(moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        message = f"moment: expected a datetime with a time zone, got {shown(moment)}; add tzinfo=UTC"
        raise InvalidValue(message)
    if not _EARLIEST_YEAR <= moment.year < _LATEST_YEAR:  # beyond lies the end of the calendar, where sums fail
        message = f"moment: expected a year from {_EARLIEST_YEAR} to {_LATEST_YEAR - 1}, got {shown(moment)}"
        raise InvalidValue(message)
    return moment.astimezone(UTC)


@lru_cache(maxsize=512)
def _parsed(line: str) -> CronSim:
    """Parse a line; only its fields are read, it is never moved on."""
    return CronSim(line, _START)


@lru_cache(maxsize=512)
def _fixed(line: str) -> bool:
    """Whether a line names times of the day, as Debian's cron tells them from those that repeat all day long."""
    fields = _parsed(line)
    if len(fields.hours) == _DAY_HOURS:
        return False
    once_a_day = len(fields.hours) == len(fields.minutes) == 1
    return once_a_day or not any(part.startswith("*") for part in fields.parts[1:3])


def _span(length_ms: int) -> str:
    parts = []
    for unit, size in _UNITS:
        count, length_ms = divmod(length_ms, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


CronLine = Annotated[str, text_format(lambda value, _: read_times(value))]
"""The type of a setting that is a cron line."""
