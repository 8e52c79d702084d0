"""When an answer has to be there, and when a digest goes out."""

from datetime import UTC, datetime, time, timedelta

from holdfast.hours import Hours
from holdfast.zones import forward, instant, read_zone, wall_time

_DAY = timedelta(days=1)
_LONGEST_LOOK = 3_000  # openings and closings: years of working days


def answer_by(moment: datetime, length: timedelta, hours: Hours | None) -> datetime:
    """Add a length of time to a moment, of which only the opening hours count if there are any.

    Hours that do not open any more count like the clock on the wall: nobody would ever be called otherwise.
    """
    if hours is None:
        return moment + length
    at, left, zone = moment.astimezone(UTC), length, hours.zone
    for _ in range(_LONGEST_LOOK):
        wall = wall_time(at, zone)
        if hours.covers(wall):
            closing = forward(at, hours.closes(wall) - wall, zone)
            if closing - at >= left:
                return at + left
            at, left = closing, left - (closing - at)
        else:
            opening = hours.reopens(wall)
            following = instant(opening, zone)
            at = at + _DAY if following is None or following <= at else following
    return moment + length


def next_digest(digest_at: str, tz: str, now: datetime) -> datetime | None:
    """The first time after a moment at which a digest is due; None when clocks skip it for days."""
    zone = read_zone(tz)
    today = wall_time(now, zone).date()
    clock = time(int(digest_at[:2]), int(digest_at[3:]))
    coming = (instant(datetime.combine(today + ahead * _DAY, clock), zone) for ahead in range(3))
    return next((at for at in coming if at is not None and at > now), None)


def latest_digest(digest_at: str, tz: str, now: datetime) -> datetime | None:
    """The last time before or at a moment at which a digest was due; None when clocks skipped it for days."""
    zone = read_zone(tz)
    wall = wall_time(now, zone)
    clock = time(int(digest_at[:2]), int(digest_at[3:]))
    for back in range(3):
        at = instant(datetime.combine(wall.date() - back * _DAY, clock), zone)
        if at is not None and at <= now:
            return at
    return None
