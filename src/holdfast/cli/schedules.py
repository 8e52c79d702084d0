"""`holdfast schedules list|next|fires|run|enable|disable|reset|delete|maintenance`."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import click

from holdfast import ages
from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.resources.schedule import (
    FireList,
    MaintenanceList,
    MaintenanceWindow,
    NextFires,
    ScheduleFire,
    ScheduleInfo,
    ScheduleList,
)

_EXAMPLES = ("list", "next nightly --count 5", "run nightly", "disable nightly --actor alice")


def _time(at: datetime | None) -> Cell:
    return Cell("-", "") if at is None else Cell(f"{at:%Y-%m-%d %H:%M:%S}", ages.iso(at))


def _status(schedule: ScheduleInfo) -> Cell:
    if schedule.withdrawn:
        return Cell("withdrawn", style="bright_black")
    if schedule.enabled:
        return Cell("enabled", style="green")
    by = "" if schedule.changed_by is None else f" by {schedule.changed_by}"
    return Cell(f"disabled{by}", style="yellow")


def _name(schedule: ScheduleInfo) -> Cell:
    return Cell(schedule.name + (" *" if schedule.changed else ""), schedule.name)


_SCHEDULES = ResourceTable[ScheduleInfo](
    Attribute("SCHEDULE", _name, is_flexible=True),
    Attribute("KIND", lambda schedule: schedule.kind, is_flexible=True),
    Attribute("TIMES", lambda schedule: schedule.times, is_flexible=True),
    Attribute("STATUS", _status, is_flexible=True),
    Attribute("LAST", lambda schedule: _time(schedule.last_fire)),
    Attribute("NEXT", lambda schedule: _time(schedule.next_fire)),
)
_WINDOWS = ResourceTable[MaintenanceWindow](
    Attribute("NAME", lambda window: window.name, is_flexible=True),
    Attribute("HOURS", lambda window: window.hours, is_flexible=True),
    Attribute("HOLDS UNTIL", lambda window: _time(window.holds_until)),
)
_FIRES = ResourceTable[ScheduleFire](
    Attribute("TIME", lambda fire: _time(fire.time)),
    Attribute("OUTCOME", lambda fire: fire.outcome),
    Attribute("JOB", lambda fire: fire.job),
    Attribute("NOTE", lambda fire: fire.note, is_flexible=True),
)


@click.group("schedules", cls=Noun, examples=_EXAMPLES)
def schedules() -> None:
    """Look at schedules, run and change them."""


@schedules.command("list", examples=("", "-o id", "--json"))
@listing.form
@click.pass_context
def list_schedules(ctx: click.Context, *, form: listing.Form) -> None:
    """List schedules.

    What fires when, and what people have changed of it (marked with a star).
    """
    found = with_store(ctx, lambda session: session.client.schedules.list())
    empty = "no schedule is known yet; workers publish those of their app when they start"
    listing.write(form, ScheduleList(schedules=found), *_SCHEDULES.of(found), empty=empty)


def _local(at: datetime) -> Cell:
    return Cell(f"{at:%a %Y-%m-%d %H:%M:%S}", at.isoformat())


@schedules.command("next", examples=("nightly", "nightly --count 5 --json"))
@click.argument("name", shell_complete=completing.schedules)
@options.number("--count", 10, "How many times.", most=100)
@options.as_json
@click.pass_context
def next_fires(ctx: click.Context, *, name: str, count: int, as_json: bool) -> None:
    """Show when a schedule fires next."""

    async def read(session: Session) -> tuple[ScheduleInfo, list[datetime]]:
        schedule = await session.client.schedules.get(name)
        return schedule, await session.client.schedules.next(schedule.name, count)

    schedule, times = with_store(ctx, read)
    if as_json:
        output.write_json(NextFires(schedule=schedule.name, times=times))
    elif times:
        zone = ZoneInfo(schedule.tz)
        local = Attribute[datetime](schedule.tz, lambda at: _local(at.astimezone(zone)))
        output.table(*ResourceTable[datetime](Attribute("UTC", _time), local).of(times))
    else:
        output.note(f"{schedule.name} does not fire: it is disabled, withdrawn, or has no time within five years")


@schedules.command("fires", examples=("nightly", "nightly --limit 100 -o csv"))
@click.argument("name", shell_complete=completing.schedules)
@options.number("--limit", 20, "How many at most.")
@listing.form
@click.pass_context
def fires(ctx: click.Context, *, name: str, limit: int, form: listing.Form) -> None:
    """Show what came of the last times of a schedule."""

    async def read(session: Session) -> list[ScheduleFire]:
        schedule = await session.client.schedules.get(name)
        return await session.client.schedules.fires(schedule.name, limit)

    found = with_store(ctx, read)
    ids = [fire.job for fire in found if fire.job is not None]
    listing.write(form, FireList(fires=found), *_FIRES.of(found), ids=ids, empty=f"{name} has not fired yet")


@schedules.command("run", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@click.pass_context
def run(ctx: click.Context, *, name: str) -> None:
    """Make a job of a schedule now, beside its times."""
    output.line(with_store(ctx, lambda session: session.client.schedules.run(name)))


@schedules.command("enable", examples=("nightly --actor alice",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def enable(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule fire again from now on."""
    _change(ctx, lambda session: session.client.schedules.enable(name, actor=actor), "enabled")


@schedules.command("disable", examples=("nightly --actor alice",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def disable(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule fire no more until it is enabled."""
    _change(ctx, lambda session: session.client.schedules.disable(name, actor=actor), "disabled")


@schedules.command("reset", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def reset(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule be again as apps define it."""
    _change(ctx, lambda session: session.client.schedules.reset(name, actor=actor), "reset")


@schedules.command("delete", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@click.pass_context
def delete(ctx: click.Context, *, name: str) -> None:
    """Delete a schedule that no app defines."""
    with_store(ctx, lambda session: session.client.schedules.delete(name))
    output.line(f"{name} is deleted")


@schedules.group("maintenance", cls=Noun, examples=("list", "start release --days sun", "end release"))
def maintenance() -> None:
    """Start and end maintenance, in which no schedule fires."""


@maintenance.command("list", examples=("", "--json"))
@listing.form
@click.pass_context
def list_maintenance(ctx: click.Context, *, form: listing.Form) -> None:
    """List maintenance windows.

    The hours in which no schedule fires, and until when those last that hold now.
    """
    found = with_store(ctx, lambda session: session.client.schedules.maintenance())
    listing.write(form, MaintenanceList(windows=found), *_WINDOWS.of(found), empty="no maintenance window is set")


@maintenance.command("start", examples=("release --from 02:00 --to 04:00 --days sun --tz Europe/Berlin",))
@click.argument("name")
@click.option("--from", "start", metavar="HH:MM", help="When the window starts, in local time. [default: whole days]")
@click.option("--to", "end", metavar="HH:MM", help="When it ends.")
@click.option("--days", metavar="DAYS", help="Weekdays: mon-fri, or sat,sun.")
@click.option("--date", "dates", multiple=True, metavar="DATE", help="A day like 2026-12-24; may be repeated.")
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="Of these times.")
@options.reason
@options.actor
@options.as_json
@click.pass_context
def start_maintenance(
    ctx: click.Context,
    /,
    *,
    name: str,
    start: str | None,
    end: str | None,
    days: str | None,
    dates: tuple[str, ...],
    tz: str,
    as_json: bool,
    **why: str | None,
) -> None:
    """Let no schedule fire during a maintenance window.

    Times that fall into it are recorded and left out. NAME is yours to choose; `schedules maintenance end NAME` ends
    it.
    """
    if (start is None) != (end is None):
        message = "--from and --to belong together; give both or none"
        raise click.UsageError(message, ctx)
    window = None if start is None or end is None else (start, end)
    found = with_store(
        ctx,
        lambda session: session.client.schedules.start_maintenance(
            name, window=window, days=days, tz=tz, dates=dates or None, **why
        ),
    )
    output.answer(found, f"no schedule fires {found.hours}", as_json=as_json)


@maintenance.command("end", examples=("release",))
@click.argument("name")
@click.pass_context
def end_maintenance(ctx: click.Context, *, name: str) -> None:
    """End a maintenance window."""
    with_store(ctx, lambda session: session.client.schedules.end_maintenance(name))
    output.line(f"maintenance {name} has ended")


def _change(ctx: click.Context, work: Callable[[Session], Awaitable[ScheduleInfo]], done: str) -> None:
    schedule = with_store(ctx, work)
    then = f"; next at {ages.iso(schedule.next_fire)}" if schedule.next_fire is not None else ""
    output.line(f"{schedule.name} {done}{then}")
