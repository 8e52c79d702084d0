"""The page of schedules, and the page of each: when they fire, and what came of the last times."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Form, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from holdfast import public_id
from holdfast.client.schedules import ScheduleState
from holdfast.cron import Times
from holdfast.errors import InvalidValue, shown
from holdfast.schedules import Missed, Outcome, Overlap
from holdfast.server.bodies import parse_json
from holdfast.server.kinds import KindRegistry
from holdfast.server.pages import drawing
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.problems import Problem, not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.sight import Sight
from holdfast.stores.cluster import FireRow

routes = Routes("pages", in_schema=False)

_PAGE = 25
_STRIP = 20
_TICKS = 48
_PARTS = 96  # of a day
_NEXT = 5
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
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

    def __init__(self, state: ScheduleState, fires: Sequence[FireRow], now: datetime) -> None:
        self.state = state
        self.words = in_words(state.plan.times)
        since = now.replace(second=now.second // _CACHED_S * _CACHED_S, microsecond=0)
        known, later = _coming(state.plan.times, since) if state.is_enabled else ((), ())
        coming = [moment for moment in known if moment > now]
        self.next = coming[:_NEXT]
        self.strip = _strip(state.name, fires)
        self.coming = [moment for moment in coming if moment <= now + _DAY]
        self.later = [moment for moment in later if moment <= now + _DAY]
        self.lane = drawing.lane(self.coming, now, f"the next 24 hours of {state.name}", later=self.later)
        self.missed = sum(fire.outcome == Outcome.MISSED for fire in fires)


@routes.get("/schedules", Permission.LOOK)
async def schedules_page(request: Request, sight: Seen, after: str = Query("", max_length=100)) -> Response:
    """Show all schedules, by name."""
    known = [state for state in await sight.client.stored_schedules() if sight.principal.sees(state.plan.job.queue)]
    rest = [state for state in known if state.name > after]
    states = rest[:_PAGE]
    fires = await asyncio.gather(*(sight.client.fires(state.name, _STRIP) for state in states))
    now = datetime.now(UTC)
    listed = [Shown(state, rows, now) for state, rows in zip(states, fires, strict=True)]
    return page(
        request,
        "schedules.html",
        at="schedules",
        schedules=listed,
        overlaps=_overlaps(listed, now),
        total=len(known),
        after=after,
        next_after=states[-1].name if len(rest) > _PAGE else None,
        maintenance=await sight.client.maintenance(),
        kinds=[kind.name for kind in await sight.kinds.list()],
    )


@routes.get("/schedules/{name}", Permission.LOOK)
async def schedule_page(request: Request, name: str, sight: Seen) -> Response:
    """Show one schedule."""
    state = await _state(sight, name)
    fires = await sight.client.fires(state.name, 100)
    return page(
        request,
        "schedule.html",
        at="schedules",
        shown=Shown(state, fires[:_STRIP], datetime.now(UTC)),
        state=state,
        fires=[(fire, None if fire.job_id is None else public_id.encode(fire.job_id)) for fire in fires],
        outcomes=_OUTCOMES,
        days=_days(state.plan.times.hours.days),
    )


@routes.post("/schedules", Permission.CHANGE_SCHEDULES)
async def create_schedule_here(
    request: Request,
    *,
    sight: Seen,
    who: Who,
    name: str = Form(max_length=100),
    kind: str = Form(max_length=100),
    args: str = Form("{}", max_length=100_000),
    cron: str = Form("", max_length=300),
    every: str = Form("", max_length=50),
    tz: str = Form("UTC", max_length=100),
) -> Response:
    """Make a schedule that no program defines."""
    noted(request, name=name, kind=kind, cron=cron or None, every=every or None, tz=tz)
    call = await _known(request).call(sight, kind, await asyncio.to_thread(_arguments, args), {})
    noted(request, queue=call.queue)
    made = await sight.client.create_schedule(
        name, call, actor=who.name, cron=cron or None, every=every or None, tz=tz or "UTC"
    )
    return turned(request, url(request, "schedules", made.name), f"{made.name} is scheduled")


@routes.post("/schedules/{name}/edit", Permission.CHANGE_SCHEDULES)
async def edit_schedule_here(
    request: Request,
    *,
    name: str,
    sight: Seen,
    who: Who,
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
    state = await _state(sight, name)
    noted(request, cron=cron or None, every=every or None, tz=tz, days=days or None, overlap=overlap, missed=missed)
    times = state.plan.times
    await sight.client.edit_schedule(
        state.name,
        overlap=overlap,
        missed=missed,
        actor=who.name,
        cron=cron or None,
        every=every or None,
        tz=tz or "UTC",
        window=(opens, closes) if opens or closes else None,
        days=days or None,
        exclude=times.hours.exclude,
        jitter=timedelta(milliseconds=times.jitter_ms) if times.jitter_ms else None,
    )
    return turned(request, url(request, "schedules", state.name), f"{state.name} is changed")


@routes.post("/schedules/{name}/enable", Permission.CHANGE_SCHEDULES)
async def enable_schedule_here(request: Request, name: str, sight: Seen, who: Who) -> Response:
    """Let a schedule fire again."""
    state = await _state(sight, name)
    await sight.client.enable_schedule(state.name, actor=who.name)
    said = Said(f"{state.name} fires again", undo=("schedules", state.name, "disable"))
    return turned(request, url(request, "schedules", state.name), said)


@routes.post("/schedules/{name}/disable", Permission.CHANGE_SCHEDULES)
async def disable_schedule_here(request: Request, name: str, sight: Seen, who: Who) -> Response:
    """Let a schedule fire no more."""
    state = await _state(sight, name)
    await sight.client.disable_schedule(state.name, actor=who.name)
    said = Said(f"{state.name} fires no more", undo=("schedules", state.name, "enable"))
    return turned(request, url(request, "schedules", state.name), said)


@routes.post("/schedules/{name}/run", Permission.CHANGE_SCHEDULES)
async def run_schedule_here(request: Request, name: str, sight: Seen) -> Response:
    """Make a job of a schedule now."""
    state = await _state(sight, name)
    job = public_id.encode(await sight.client.run_schedule(state.name))
    noted(request, job=job)
    return turned(request, url(request, "jobs", job), f"{state.name} has made job {job}")


@routes.post("/schedules/{name}/reset", Permission.CHANGE_SCHEDULES)
async def reset_schedule_here(request: Request, name: str, sight: Seen, who: Who) -> Response:
    """Let a schedule be again as programs define it."""
    state = await _state(sight, name)
    await sight.client.reset_schedule(state.name, actor=who.name)
    return turned(request, url(request, "schedules", state.name), f"{state.name} is again as programs say")


@routes.post("/schedules/{name}/delete", Permission.DELETE_SCHEDULES)
async def delete_schedule_here(request: Request, name: str, sight: Seen) -> Response:
    """Forget a schedule that no program defines."""
    state = await _state(sight, name)
    await sight.client.delete_schedule(state.name)
    return turned(request, url(request, "schedules"), f"{state.name} is forgotten")


async def _state(sight: Sight, name: str) -> ScheduleState:
    for state in await sight.client.stored_schedules():
        if not sight.principal.sees(state.plan.job.queue):  # guard: scope-schedule-page
            continue
        if state.name == name:
            return state
    raise not_found("schedule", name)


def _known(request: Request) -> KindRegistry:
    found: KindRegistry = request.app.state.kinds
    return found


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


def in_words(times: Times) -> str:
    """Say when a schedule fires, in a text that has an end whatever stands in its cron line."""
    words = times.describe()
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}..."


def _days(days: Sequence[int] | None) -> str:
    """Write days as an edit takes them."""
    return "" if days is None else ",".join(_WEEKDAYS[day] for day in days)


def _strip(name: str, fires: Sequence[FireRow]) -> Markup:
    cells = [
        (
            _OUTCOMES.get(Outcome(fire.outcome), "quiet"),
            f"{fire.nominal:%Y-%m-%d %H:%M} UTC {fire.outcome}" + (f": {fire.note}" if fire.note else ""),
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
