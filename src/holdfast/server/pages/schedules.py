"""The page of schedules, and the page of each: when they fire, and what came of the last times."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Form, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from holdfast.client.schedule_rows import times_of
from holdfast.cron import Times
from holdfast.errors import InvalidValue, shown
from holdfast.resources.schedule import ScheduleFire, ScheduleInfo
from holdfast.schedules import Missed, Outcome, Overlap
from holdfast.server.bodies import parse_json
from holdfast.server.pages import drawing
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.problems import Problem
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("pages", in_schema=False)

_PAGE = 25
_STRIP = 20
_TICKS = 48
_PARTS = 96  # of a day
_NEXT = 5
_CACHED_S = 10
_DAY = timedelta(hours=24)
_QUARTER = timedelta(minutes=15)
_FAR = timedelta(days=5 * 366)
_LONGEST_WORDS = 300
_OUTCOMES = {
    Outcome.ENQUEUED: "good",
    Outcome.BY_HAND: "good",
    Outcome.OVERLAP: "warn",
    Outcome.MISSED: "bad",
    Outcome.MAINTENANCE: "quiet",
}


class Shown:
    """A schedule as the page shows it."""

    def __init__(self, schedule: ScheduleInfo, fires: Sequence[ScheduleFire], now: datetime) -> None:
        self.schedule = schedule
        self.words = shortened(schedule.times)
        since = now.replace(second=now.second // _CACHED_S * _CACHED_S, microsecond=0)
        known, later = _coming(times_of(schedule), since) if schedule.is_active else ((), ())
        coming = [moment for moment in known if moment > now]
        self.next = coming[:_NEXT]
        self.strip = _strip(schedule.name, fires)
        self.coming = [moment for moment in coming if moment <= now + _DAY]
        self.later = [moment for moment in later if moment <= now + _DAY]
        self.lane = drawing.lane(self.coming, now, f"the next 24 hours of {schedule.name}", later=self.later)
        self.missed = sum(fire.outcome == Outcome.MISSED for fire in fires)


@routes.get("/schedules", Permission.LOOK)
async def schedules_page(request: Request, client: Seen, after: str = Query("", max_length=100)) -> Response:
    """Show all schedules, by name."""
    known = await client.schedules.list()
    rest = [schedule for schedule in known if schedule.name > after]
    listed = rest[:_PAGE]
    fires = await asyncio.gather(*(client.schedules.fires(schedule.name, _STRIP) for schedule in listed))
    now = datetime.now(UTC)
    shown = [Shown(schedule, rows, now) for schedule, rows in zip(listed, fires, strict=True)]
    return page(
        request,
        "schedules.html",
        at="schedules",
        schedules=shown,
        overlaps=_overlaps(shown, now),
        total=len(known),
        after=after,
        next_after=listed[-1].name if len(rest) > _PAGE else None,
        maintenance=await client.schedules.maintenance(),
        kinds=[kind.name for kind in await client.kinds.list()],
    )


@routes.get("/schedules/{name}", Permission.LOOK)
async def schedule_page(request: Request, name: str, client: Seen) -> Response:
    """Show one schedule."""
    schedule = await client.schedules.get(name)
    fires = await client.schedules.fires(schedule.name, 100)
    return page(
        request,
        "schedule.html",
        at="schedules",
        shown=Shown(schedule, fires[:_STRIP], datetime.now(UTC)),
        schedule=schedule,
        zone=ZoneInfo(schedule.tz),
        fires=fires,
        outcomes=_OUTCOMES,
    )


@routes.post("/schedules", Permission.CHANGE_SCHEDULES)
async def create_schedule_here(
    request: Request,
    *,
    client: Seen,
    name: str = Form(max_length=100),
    kind: str = Form(max_length=100),
    args: str = Form("{}", max_length=100_000),
    cron: str = Form("", max_length=300),
    every: str = Form("", max_length=50),
    tz: str = Form("UTC", max_length=100),
) -> Response:
    """Make a schedule that no app defines."""
    noted(request, name=name, kind=kind, cron=cron or None, every=every or None, tz=tz)
    call = await client.kinds.call(kind, await asyncio.to_thread(_arguments, args), {})
    noted(request, queue=call.queue)
    made = await client.schedules.create(name, call, cron=cron or None, every=every or None, tz=tz or "UTC")
    return turned(request, url(request, "schedules", made.name), f"{made.name} is scheduled")


@routes.post("/schedules/{name}/edit", Permission.CHANGE_SCHEDULES)
async def edit_schedule_here(
    request: Request,
    *,
    name: str,
    client: Seen,
    cron: str = Form("", max_length=300),
    every: str = Form("", max_length=50),
    tz: str = Form("UTC", max_length=100),
    opens: str = Form("", max_length=5),
    closes: str = Form("", max_length=5),
    days: str = Form("", max_length=100),
    overlap: Annotated[Overlap, Form()] = "skip",
    missed: Annotated[Missed, Form()] = "once",
) -> Response:
    """Change when a schedule fires, for everybody."""
    times = times_of(await client.schedules.get(name))
    noted(request, cron=cron or None, every=every or None, tz=tz, days=days or None, overlap=overlap, missed=missed)
    schedule = await client.schedules.edit(
        name,
        overlap=overlap,
        missed=missed,
        cron=cron or None,
        every=every or None,
        tz=tz or "UTC",
        window=(opens, closes) if opens or closes else None,
        days=days or None,
        exclude=times.hours.exclude,
        jitter=timedelta(milliseconds=times.jitter_ms) if times.jitter_ms else None,
    )
    return turned(request, url(request, "schedules", schedule.name), f"{schedule.name} is changed")


@routes.post("/schedules/{name}/enable", Permission.CHANGE_SCHEDULES)
async def enable_schedule_here(request: Request, name: str, client: Seen) -> Response:
    """Let a schedule fire again."""
    schedule = await client.schedules.enable(name)
    said = Said(f"{schedule.name} fires again", undo=("schedules", schedule.name, "disable"))
    return turned(request, url(request, "schedules", schedule.name), said)


@routes.post("/schedules/{name}/disable", Permission.CHANGE_SCHEDULES)
async def disable_schedule_here(request: Request, name: str, client: Seen) -> Response:
    """Let a schedule fire no more."""
    schedule = await client.schedules.disable(name)
    said = Said(f"{schedule.name} fires no more", undo=("schedules", schedule.name, "enable"))
    return turned(request, url(request, "schedules", schedule.name), said)


@routes.post("/schedules/{name}/run", Permission.CHANGE_SCHEDULES)
async def run_schedule_here(request: Request, name: str, client: Seen) -> Response:
    """Make a job of a schedule now."""
    job = await client.schedules.run(name)
    noted(request, job=job)
    return turned(request, url(request, "jobs", job), f"{name} has made job {job}")


@routes.post("/schedules/{name}/reset", Permission.CHANGE_SCHEDULES)
async def reset_schedule_here(request: Request, name: str, client: Seen) -> Response:
    """Let a schedule be again as apps define it."""
    schedule = await client.schedules.reset(name)
    return turned(request, url(request, "schedules", schedule.name), f"{schedule.name} is again as apps say")


@routes.post("/schedules/{name}/delete", Permission.DELETE_SCHEDULES)
async def delete_schedule_here(request: Request, name: str, client: Seen) -> Response:
    """Forget a schedule that no app defines."""
    await client.schedules.delete(name)
    return turned(request, url(request, "schedules"), f"{name} is deleted")


def _arguments(text: str) -> dict[str, Any]:
    """Read the arguments that somebody typed."""
    try:
        given = parse_json((text or "{}").encode())
    except Problem:
        given = None
    if not isinstance(given, dict):
        message = f'args: expected a JSON object, such as {{"to": "ada@example.org"}}, got {shown(text)}'
        raise InvalidValue(message)
    return given


def shortened(words: str) -> str:
    """Say when a schedule fires, in a text that has an end whatever stands in its cron line."""
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}..."


def _strip(name: str, fires: Sequence[ScheduleFire]) -> Markup:
    cells = [
        (
            _OUTCOMES.get(Outcome(fire.outcome), "quiet"),
            f"{fire.time:%Y-%m-%d %H:%M} UTC {fire.outcome}" + (f": {fire.note}" if fire.note else ""),
        )
        for fire in reversed(fires)
    ]
    return drawing.strip(cells, f"what came of the last times of {name}")


def _overlaps(listed: Sequence[Shown], now: datetime) -> Markup:
    """Draw how many schedules fire at about the same time, in the next day."""
    counts = [0] * _PARTS
    for one in listed:
        for part in {_part(moment, now) for moment in (*one.coming, *one.later)}:
            counts[part] += 1
    title = f"how many schedules fire within each quarter of an hour of the next 24: {max(counts)} at most"
    return drawing.overlaps(counts, title)


def _part(moment: datetime, now: datetime) -> int:
    """Which part of the next day it is."""
    return min(int((moment - now) / _DAY * _PARTS), _PARTS - 1)


@lru_cache(maxsize=512)
def _coming(times: Times, since: datetime) -> tuple[tuple[datetime, ...], tuple[datetime, ...]]:
    """The next times, as many as a picture has room for, and the first in each quarter of an hour of the rest of a day.

    A page that is loaded again within seconds counts once.
    """
    known = tuple(times.between(since, since + _FAR, _TICKS))
    later: list[datetime] = []
    if len(known) == _TICKS:
        fire = times.next_after(known[-1])
        while fire is not None and fire <= since + _DAY + _QUARTER:
            later.append(fire)
            fire = times.next_after(fire + _QUARTER)
    return known, tuple(later)
