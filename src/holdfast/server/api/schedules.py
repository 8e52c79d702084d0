"""Schedules: what is made when, what came of it, and the hours in which none fires."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request

from holdfast.client.schedules import ScheduleState
from holdfast.errors import ScheduleNotFound
from holdfast.public_id import encode
from holdfast.server.api.enqueueing import kinds
from holdfast.server.api.parameters import NAME, Limit
from holdfast.server.api.schedule_shapes import (
    FireList,
    NewSchedule,
    NewWindow,
    NextFires,
    ScheduleChange,
    ScheduledJob,
    ScheduleList,
    ScheduleShape,
    TimesAsked,
    WindowList,
    WindowShape,
    fire_shape,
    schedule_shape,
    window_shape,
)
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.sight import Sight

routes = Routes("schedules")

_CREATED, _GONE = 201, 204
_MOST_FIRES = 100
_TIMES = ("cron", "every", "window", "days", "tz", "exclude", "jitter")

Name = Annotated[str, Path(max_length=NAME, examples=["nightly-report"], description="The name of a schedule.")]
WindowName = Annotated[
    str, Path(max_length=NAME, examples=["release"], description="The name of a maintenance window, which is free.")
]


@routes.get("/schedules", Permission.LOOK, summary="List schedules")
async def list_schedules(sight: Seen) -> ScheduleList:
    """Read every schedule: what fires when, and what people have changed of it."""
    now = datetime.now(UTC)
    states = await sight.client.stored_schedules()
    return ScheduleList(
        schedules=[schedule_shape(state, now) for state in states if sight.principal.sees(state.plan.job.queue)]
    )


@routes.get("/schedules/{name}", Permission.LOOK, summary="Read a schedule")
async def read_schedule(name: Name, sight: Seen) -> ScheduleShape:
    """Read one schedule."""
    return schedule_shape(await _found(sight, name), datetime.now(UTC))


@routes.get("/schedules/{name}/next", Permission.LOOK, summary="Read when a schedule fires next")
async def read_next_fires(
    name: Name,
    sight: Seen,
    count: Annotated[int, Query(ge=1, le=_MOST_FIRES, examples=[5], description="How many times.")] = 10,
) -> NextFires:
    """Work out when a schedule fires next, as it is now."""
    state = await _found(sight, name)
    return NextFires(schedule=state.name, times=state.following(datetime.now(UTC), count))


@routes.get("/schedules/{name}/fires", Permission.LOOK, summary="Read what came of a schedule")
async def list_fires(name: Name, sight: Seen, limit: Limit = 20) -> FireList:
    """Read what came of the last times of a schedule, the newest first; they are kept for 30 days."""
    state = await _found(sight, name)
    return FireList(fires=[fire_shape(row) for row in await sight.client.fires(state.name, limit)])


@routes.post("/schedules", Permission.CHANGE_SCHEDULES, status_code=_CREATED, summary="Make a schedule")
async def create_schedule(asked: NewSchedule, sight: Seen, who: Who, request: Request) -> ScheduleShape:
    """Make a schedule that no program defines."""
    call = await kinds(request).call(sight, asked.kind, asked.args, {})
    noted(request, schedule=asked.name, queue=call.queue)
    options = {**_times(asked), **_policies(asked), "enabled": asked.enabled}
    state = await sight.client.create_schedule(asked.name, call, actor=who.name, **options)
    return schedule_shape(state, datetime.now(UTC))


@routes.patch("/schedules/{name}", Permission.CHANGE_SCHEDULES, summary="Change a schedule")
async def edit_schedule(name: Name, asked: ScheduleChange, sight: Seen, who: Who, request: Request) -> ScheduleShape:
    """Change a schedule for everybody, until it is reset; times are given as a whole."""
    state = await _acting(sight, name, request)
    call = None
    if asked.args is not None:
        call = await kinds(request).call(sight, state.plan.kind, asked.args, {})
    changes = {**_times(asked), **_policies(asked)}
    noted(request, changes=[*changes, *(["args"] if call is not None else [])])
    changed = await sight.client.edit_schedule(state.name, call=call, actor=who.name, **changes)
    return schedule_shape(changed, datetime.now(UTC))


@routes.post("/schedules/{name}/enable", Permission.CHANGE_SCHEDULES, summary="Enable a schedule")
async def enable_schedule(name: Name, sight: Seen, who: Who, request: Request) -> ScheduleShape:
    """Let a schedule fire again from now on."""
    state = await _acting(sight, name, request)
    return schedule_shape(await sight.client.enable_schedule(state.name, actor=who.name), datetime.now(UTC))


@routes.post("/schedules/{name}/disable", Permission.CHANGE_SCHEDULES, summary="Disable a schedule")
async def disable_schedule(name: Name, sight: Seen, who: Who, request: Request) -> ScheduleShape:
    """Let a schedule fire no more until it is enabled."""
    state = await _acting(sight, name, request)
    return schedule_shape(await sight.client.disable_schedule(state.name, actor=who.name), datetime.now(UTC))


@routes.post("/schedules/{name}/reset", Permission.CHANGE_SCHEDULES, summary="Reset a schedule")
async def reset_schedule(name: Name, sight: Seen, who: Who, request: Request) -> ScheduleShape:
    """Let a schedule be again as programs define it."""
    state = await _acting(sight, name, request)
    return schedule_shape(await sight.client.reset_schedule(state.name, actor=who.name), datetime.now(UTC))


@routes.post("/schedules/{name}/run", Permission.CHANGE_SCHEDULES, status_code=_CREATED, summary="Run a schedule now")
async def run_schedule(name: Name, sight: Seen, request: Request) -> ScheduledJob:
    """Make a job of a schedule now, beside its times."""
    state = await _acting(sight, name, request)
    made = encode(await sight.client.run_schedule(state.name))
    noted(request, job=made)
    return ScheduledJob(id=made)


@routes.delete("/schedules/{name}", Permission.DELETE_SCHEDULES, status_code=_GONE, summary="Delete a schedule")
async def delete_schedule(name: Name, sight: Seen, request: Request) -> None:
    """Forget a schedule that no program defines any more, or ever did."""
    state = await _acting(sight, name, request)
    await sight.client.delete_schedule(state.name)


@routes.get("/maintenance", Permission.LOOK, summary="List maintenance windows")
async def list_windows(sight: Seen) -> WindowList:
    """Read the hours in which no schedule fires."""
    now = datetime.now(UTC)
    found = await sight.client.maintenance()
    return WindowList(windows=[window_shape(name, window, now) for name, window in sorted(found.items())])


@routes.put("/maintenance/{name}", Permission.SET_MAINTENANCE, whole=True, summary="Set a maintenance window")
async def set_window(name: WindowName, asked: NewWindow, sight: Seen, who: Who, request: Request) -> WindowShape:
    """Let no schedule fire during these hours; its times are recorded and left out."""
    noted(request, reason=asked.reason)
    window = await sight.client.close_schedules(
        name,
        window=asked.window,
        days=asked.days,
        tz=asked.tz,
        dates=asked.dates,
        actor=who.name,
        reason=asked.reason,
    )
    return window_shape(name.lower(), window, datetime.now(UTC))


@routes.delete(
    "/maintenance/{name}", Permission.SET_MAINTENANCE, whole=True, status_code=_GONE, summary="Take a window back"
)
async def delete_window(name: WindowName, sight: Seen) -> None:
    """Let schedules fire again during these hours."""
    if not await sight.client.open_schedules(name):
        raise not_found("window", name)


async def _found(sight: Sight, name: str) -> ScheduleState:
    """Find a schedule; one whose jobs go to a queue that is not the asker's is not there."""
    for state in await sight.client.stored_schedules():
        if not sight.principal.sees(state.plan.job.queue):  # guard: scope-schedule
            continue
        if state.name == name.lower():
            return state
    message = f"there is no schedule {name}"
    raise ScheduleNotFound(message)


async def _acting(sight: Sight, name: str, request: Request) -> ScheduleState:
    state = await _found(sight, name)
    noted(request, queue=state.plan.job.queue)
    return state


def _times(asked: TimesAsked) -> dict[str, Any]:
    return {key: value for key in _TIMES if (value := getattr(asked, key)) is not None}


def _policies(asked: TimesAsked) -> dict[str, Any]:
    fields = ("overlap", "missed", "most_missed", "grace")
    return {key: value for key in fields if (value := getattr(asked, key)) is not None}
