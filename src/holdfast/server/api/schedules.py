"""Schedules: what is made when, what came of it, and the hours in which none fires."""

from typing import Annotated, Any

from fastapi import Path, Query, Request

from holdfast.resources.schedule import (
    FireList,
    MaintenanceList,
    MaintenanceRequest,
    MaintenanceWindow,
    NextFires,
    ScheduleChangeRequest,
    ScheduledJob,
    ScheduleInfo,
    ScheduleList,
    ScheduleRequest,
)
from holdfast.schedules import ChangeOptions
from holdfast.server.api.parameters import NAME, Limit
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("schedules")

_CREATED, _GONE = 201, 204
_MOST_FIRES = 100

Name = Annotated[str, Path(max_length=NAME, examples=["nightly-report"], description="The name of a schedule.")]
WindowName = Annotated[
    str, Path(max_length=NAME, examples=["release"], description="The name of a maintenance window, which is free.")
]


@routes.get("/schedules", Permission.LOOK, summary="List schedules")
async def list_schedules(client: Seen) -> ScheduleList:
    """Read every schedule: what fires when, and what people have changed of it."""
    return ScheduleList(schedules=await client.schedules.list())


@routes.get("/schedules/{name}", Permission.LOOK, summary="Read a schedule")
async def read_schedule(name: Name, client: Seen) -> ScheduleInfo:
    """Read one schedule."""
    return await client.schedules.get(name)


@routes.get("/schedules/{name}/next", Permission.LOOK, summary="Read when a schedule fires next")
async def read_next_fires(
    name: Name,
    client: Seen,
    count: Annotated[int, Query(ge=1, le=_MOST_FIRES, examples=[5], description="How many times.")] = 10,
) -> NextFires:
    """Work out when a schedule fires next, as it is now."""
    schedule = await client.schedules.get(name)
    return NextFires(schedule=schedule.name, times=await client.schedules.next(schedule.name, count))


@routes.get("/schedules/{name}/fires", Permission.LOOK, summary="Read what came of a schedule")
async def list_fires(name: Name, client: Seen, limit: Limit = 20) -> FireList:
    """Read what came of the last times of a schedule, the newest first; they are kept for 30 days."""
    return FireList(fires=await client.schedules.fires(name, limit))


@routes.post("/schedules", Permission.CHANGE_SCHEDULES, status_code=_CREATED, summary="Make a schedule")
async def create_schedule(asked: ScheduleRequest, client: Seen, request: Request) -> ScheduleInfo:
    """Make a schedule that no app defines."""
    call = await client.kinds.call(asked.kind, asked.args or {}, {})
    noted(request, schedule=asked.name, queue=call.queue)
    return await client.schedules.create(asked.name, call, enabled=asked.enabled, **_changes(asked))


@routes.patch("/schedules/{name}", Permission.CHANGE_SCHEDULES, summary="Change a schedule")
async def edit_schedule(name: Name, asked: ScheduleChangeRequest, client: Seen, request: Request) -> ScheduleInfo:
    """Change a schedule for all apps, until it is reset; times are given as a whole."""
    schedule = await _acting(client, name, request)
    call = None
    if asked.args is not None:
        call = await client.kinds.call(schedule.kind, asked.args, {})
    changes = _changes(asked)
    noted(request, changes=[*changes, *(["args"] if call is not None else [])])
    return await client.schedules.edit(schedule.name, call=call, **changes)


@routes.post("/schedules/{name}/enable", Permission.CHANGE_SCHEDULES, summary="Enable a schedule")
async def enable_schedule(name: Name, client: Seen, request: Request) -> ScheduleInfo:
    """Let a schedule fire again from now on."""
    return await client.schedules.enable((await _acting(client, name, request)).name)


@routes.post("/schedules/{name}/disable", Permission.CHANGE_SCHEDULES, summary="Disable a schedule")
async def disable_schedule(name: Name, client: Seen, request: Request) -> ScheduleInfo:
    """Let a schedule fire no more until it is enabled."""
    return await client.schedules.disable((await _acting(client, name, request)).name)


@routes.post("/schedules/{name}/reset", Permission.CHANGE_SCHEDULES, summary="Reset a schedule")
async def reset_schedule(name: Name, client: Seen, request: Request) -> ScheduleInfo:
    """Let a schedule be again as apps define it."""
    return await client.schedules.reset((await _acting(client, name, request)).name)


@routes.post("/schedules/{name}/run", Permission.CHANGE_SCHEDULES, status_code=_CREATED, summary="Run a schedule now")
async def run_schedule(name: Name, client: Seen, request: Request) -> ScheduledJob:
    """Make a job of a schedule now, beside its times."""
    job = await client.schedules.run((await _acting(client, name, request)).name)
    noted(request, job=job)
    return ScheduledJob(id=job)


@routes.delete("/schedules/{name}", Permission.DELETE_SCHEDULES, status_code=_GONE, summary="Delete a schedule")
async def delete_schedule(name: Name, client: Seen, request: Request) -> None:
    """Delete a schedule that no app defines."""
    await client.schedules.delete((await _acting(client, name, request)).name)


@routes.get("/maintenance", Permission.LOOK, summary="List maintenance windows")
async def list_windows(client: Seen) -> MaintenanceList:
    """Read the hours in which no schedule fires."""
    return MaintenanceList(windows=await client.schedules.maintenance())


@routes.put("/maintenance/{name}", Permission.SET_MAINTENANCE, whole=True, summary="Start maintenance")
async def start_maintenance(
    name: WindowName, asked: MaintenanceRequest, client: Seen, request: Request
) -> MaintenanceWindow:
    """Let no schedule fire during these hours; its times are recorded and left out."""
    noted(request, reason=asked.reason)
    return await client.schedules.start_maintenance(
        name, window=asked.window, days=asked.days, tz=asked.tz, dates=asked.dates, reason=asked.reason
    )


@routes.delete(
    "/maintenance/{name}", Permission.SET_MAINTENANCE, whole=True, status_code=_GONE, summary="End maintenance"
)
async def end_maintenance(name: WindowName, client: Seen) -> None:
    """Let schedules fire again during these hours."""
    await client.schedules.end_maintenance(name)


async def _acting(client: ScopedClient, name: str, request: Request) -> ScheduleInfo:
    """Find the schedule to act on, and note its queue in the audit."""
    schedule = await client.schedules.get(name)
    noted(request, queue=schedule.queue)
    return schedule


def _changes(asked: ScheduleChangeRequest) -> dict[str, Any]:
    return {name: value for name in ChangeOptions.__annotations__ if (value := getattr(asked, name)) is not None}
