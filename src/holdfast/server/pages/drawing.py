"""Small pictures made on the server: SVG with classes for colours, so that they follow the theme and need no script."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from holdfast.rollup import BUCKETS, upper_bound_ms
from holdfast.server.pages.rendering import span

_HEIGHT = 60
_BAR = 10
_FOOT = 14
_LABELLED = (0, 10, 20, 30, 42)
_LANE_WIDTH = 480
_LANE_HEIGHT = 14
_OVERLAP_HEIGHT = 36
_QUARTER = 5  # of an hour, on a lane
_HOURS = 24
_DAY = timedelta(hours=_HOURS)
_SPARK_HEIGHT = 20
_SPARK_BAR = 5
_CELL = 10
_WHOLE = 1_000
_DOWN_WIDTH = 1_000
_DOWN_HEIGHT = 120


def histogram(counts: Mapping[int, int], title: str, *, promised_ms: int | None = None) -> Markup:
    """Draw how long things took, shortest first, one bar for each bucket of `rollup`; a line shows the SLA."""
    width, most = BUCKETS * _BAR, max(counts.values(), default=0)
    bars = [
        Markup('<rect x="{}" y="{}" width="{}" height="{}"><title>{} {}: {:,}</title></rect>').format(
            number * _BAR, _HEIGHT - tall, _BAR - 1, tall, _below(number), span(upper_bound_ms(number)), count
        )
        for number, count in sorted(counts.items())
        if count and (tall := max(1, round(_HEIGHT * count / most)))
    ]
    marks = [
        Markup('<text class="{}" x="{}" y="{}">{}</text>').format(
            "last" if number == _LABELLED[-1] else "", number * _BAR, _HEIGHT + _FOOT, span(upper_bound_ms(number))
        )
        for number in _LABELLED
    ]
    if promised_ms is not None:
        at = next((number for number in range(BUCKETS) if upper_bound_ms(number) >= promised_ms), BUCKETS) * _BAR
        marks.append(
            Markup('<line class="sla" x1="{0}" x2="{0}" y1="0" y2="{1}"><title>SLA {2}</title></line>').format(
                at, _HEIGHT, span(promised_ms)
            )
        )
    return Markup('<svg class="histogram" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>').format(
        width, _HEIGHT + _FOOT + 2, title, Markup().join(bars), Markup().join(marks)
    )


def _below(number: int) -> str:
    return "under" if number < BUCKETS - 1 else "over"


def spark(values: Sequence[int], title: str) -> Markup:
    """Draw a few numbers as bars, oldest first."""
    most = max(values, default=0)
    bars = [
        Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
            index * _SPARK_BAR, _SPARK_HEIGHT - tall, _SPARK_BAR - 1, tall
        )
        for index, value in enumerate(values)
        if value and (tall := max(2, round(_SPARK_HEIGHT * value / most)))
    ]
    return Markup('<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        max(len(values), 1) * _SPARK_BAR, _SPARK_HEIGHT, title, Markup().join(bars)
    )


def strip(cells: Iterable[tuple[str, str]], title: str) -> Markup:
    """Draw what came of the last times as squares, oldest first: pairs of a class and what it says when pointed at."""
    squares = [
        Markup('<rect class="{}" x="{}" y="1" width="{}" height="{}"><title>{}</title></rect>').format(
            name, index * _CELL, _CELL - 2, _CELL, said
        )
        for index, (name, said) in enumerate(cells)
    ]
    return Markup(
        '<svg class="strip" width="{0}" height="12" viewBox="0 0 {0} 12" role="img" aria-label="{1}">{2}</svg>'
    ).format(max(len(squares), 1) * _CELL, title, Markup().join(squares))


def lane(times: Sequence[datetime], now: datetime, title: str, *, later: Sequence[datetime] = ()) -> Markup:
    """Draw the times of the next day as ticks; of `later` only that there are some within a quarter of an hour."""
    ticks = [
        Markup('<rect x="{}" y="2" width="2" height="{}"><title>{}</title></rect>').format(
            _x(moment, now), _LANE_HEIGHT - 4, f"{moment:%H:%M:%S} UTC"
        )
        for moment in times
    ]
    ticks += [
        Markup('<rect class="dense" x="{}" y="2" width="{}" height="{}"><title>from {}</title></rect>').format(
            _x(moment, now), _QUARTER, _LANE_HEIGHT - 4, f"{moment:%H:%M} UTC"
        )
        for moment in later
    ]
    hours = [
        Markup('<line x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(hour * _LANE_WIDTH // _HOURS, _LANE_HEIGHT)
        for hour in range(0, _HOURS + 1, 6)
    ]
    return Markup(
        '<svg class="daylane" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}{}</svg>'
    ).format(_LANE_WIDTH, _LANE_HEIGHT, title, Markup().join(hours), Markup().join(ticks))


def overlaps(counts: Sequence[int], title: str) -> Markup:
    """Draw how many fire within each part of the next day, on the scale of the lanes below it."""
    width, most = _LANE_WIDTH / max(len(counts), 1), max(counts, default=0)
    bars = [
        Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
            "many" if count > 1 else "one",
            round(index * width, 1),
            _OVERLAP_HEIGHT - tall,
            round(width - 0.6, 1),
            tall,
            f"{count} within {_minutes(index, len(counts))}",
        )
        for index, count in enumerate(counts)
        if count and (tall := max(3, round(_OVERLAP_HEIGHT * count / most)))
    ]
    hours = [
        Markup('<line x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(hour * _LANE_WIDTH // _HOURS, _OVERLAP_HEIGHT)
        for hour in range(0, _HOURS + 1, 6)
    ]
    return Markup(
        '<svg class="daylane overlaps" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        "{}{}</svg>"
    ).format(_LANE_WIDTH, _OVERLAP_HEIGHT, title, Markup().join(hours), Markup().join(bars))


def _minutes(index: int, parts: int) -> str:
    """Say which part of the day it is, counted from now."""
    since = round(index * _HOURS * 60 / parts)
    until = round((index + 1) * _HOURS * 60 / parts)
    return f"+{since // 60}:{since % 60:02} to +{until // 60}:{until % 60:02}"


def _x(moment: datetime, now: datetime) -> int:
    return min(max(round((moment - now) / _DAY * _LANE_WIDTH), 0), _LANE_WIDTH - 2)


def burn(spent: float, reserved: float, marks: Sequence[float], title: str) -> Markup:
    """Draw how much of a budget is spent and set aside, as shares of the whole, with a line at each mark."""
    used = min(max(spent, 0.0), 1.0)
    aside = min(max(reserved, 0.0), 1.0 - used)
    level = "over" if spent >= 1 else "near" if spent >= 0.8 else "calm"  # noqa: PLR2004 - as the marks have it
    lines = [
        Markup('<line x1="{0}" x2="{0}" y1="0" y2="16"><title>{1:.0%}</title></line>').format(
            round(mark * _WHOLE), mark
        )
        for mark in marks
        if 0 < mark <= 1
    ]
    return Markup(
        '<svg class="burn" viewBox="0 0 {whole} 16" preserveAspectRatio="none" role="img" aria-label="{title}">'
        '<rect class="all" width="{whole}" height="16"/><rect class="{level}" width="{used}" height="16"/>'
        '<rect class="aside" x="{used}" width="{aside}" height="16"/>{lines}</svg>'
    ).format(
        whole=_WHOLE,
        title=title,
        level=level,
        used=round(used * _WHOLE),
        aside=round(aside * _WHOLE),
        lines=Markup().join(lines),
    )


def burn_down(
    left: Sequence[tuple[float, float]], ends: tuple[float, float] | None, marks: Sequence[float], title: str
) -> Markup:
    """Draw what is left of a budget over its period: points of two shares, how far in time and how much of the whole.

    `ends` is where the line would lead if it goes on like this.
    """
    lines = [
        Markup('<line class="mark" x1="0" x2="{0}" y1="{1}" y2="{1}"><title>{2:.0%} spent</title></line>').format(
            _DOWN_WIDTH, _down_y(1 - mark), mark
        )
        for mark in marks
        if 0 < mark <= 1
    ]
    path = " ".join(f"{_down_x(at)},{_down_y(share)}" for at, share in left)
    if ends is not None and left:
        (x1, y1), (x2, y2) = (_down_x(left[-1][0]), _down_y(left[-1][1])), (_down_x(ends[0]), _down_y(ends[1]))
        lines.append(Markup('<line class="coming" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(x1, y1, x2, y2))
    if left:
        lines.append(
            Markup('<line class="now" x1="{0}" x2="{0}" y1="0" y2="{1}"><title>now</title></line>').format(
                _down_x(left[-1][0]), _DOWN_HEIGHT
            )
        )
    return Markup(
        '<svg class="burndown" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '{}<polyline points="{}"/></svg>'
    ).format(_DOWN_WIDTH, _DOWN_HEIGHT, title, Markup().join(lines), path)


def _down_x(share: float) -> int:
    return round(min(max(share, 0.0), 1.0) * _DOWN_WIDTH)


def _down_y(share: float) -> int:
    return round((1 - min(max(share, 0.0), 1.0)) * (_DOWN_HEIGHT - 4)) + 2
