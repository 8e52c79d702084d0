"""`holdfast schedules list|next|fires|run|enable|disable|reset|delete|close|open`."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import click

from holdfast import ages, public_id
from holdfast.cli import cluster_shapes, completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.schedules import ScheduleState
from holdfast.errors import ScheduleNotFound
from holdfast.stores.cluster import FireRow

_EXAMPLES = ("list", "next nightly --count 5", "run nightly", "disable nightly --actor alice")
_COLUMNS = (
    Column("SCHEDULE", is_flexible=True),
    Column("KIND", is_flexible=True),
    Column("TIMES", is_flexible=True),
    Column("STATUS", is_flexible=True),
    Column("LAST"),
    Column("NEXT"),
)
_FIRES = (Column("TIME"), Column("OUTCOME"), Column("JOB"), Column("NOTE", is_flexible=True))


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

    async def read(session: Session) -> list[ScheduleState]:
        return await session.client.stored_schedules()

    states = with_store(ctx, read)
    now = ages.now()
    shape = {"schedules": cluster_shapes.schedules(states, now)}
    empty = "no schedule is known yet; workers publish those of their app when they start"
    listing.write(form, shape, _COLUMNS, [_row(state, now) for state in states], empty=empty)


def _row(state: ScheduleState, now: datetime) -> list[Cell]:
    if state.is_withdrawn:
        status = Cell("withdrawn", style="bright_black")
    elif state.plan.enabled:
        status = Cell("enabled", style="green")
    else:
        status = Cell("disabled" if state.changed_by is None else f"disabled by {state.changed_by}", style="yellow")
    following = state.following(now, 1)
    return [
        Cell(state.name + (" *" if state.changed else ""), state.name),
        Cell(state.plan.kind),
        Cell(state.plan.times.describe()),
        status,
        _time(state.last_fire),
        _time(following[0] if following else None),
    ]


def _time(at: datetime | None) -> Cell:
    return Cell("-", "") if at is None else Cell(f"{at:%Y-%m-%d %H:%M:%S}", ages.iso(at))


def _local(at: datetime) -> Cell:
    return Cell(f"{at:%a %Y-%m-%d %H:%M:%S}", at.isoformat())


@schedules.command("next", examples=("nightly", "nightly --count 5 --json"))
@click.argument("name", shell_complete=completing.schedules)
@click.option(
    "--count", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N", help="How many times."
)
@options.as_json
@click.pass_context
def next_fires(ctx: click.Context, *, name: str, count: int, as_json: bool) -> None:
    """Show when a schedule fires next."""

    async def read(session: Session) -> tuple[ScheduleState, Sequence[datetime]]:
        found = _named(await session.client.stored_schedules(), name)
        return found, await session.following(found, count)

    state, times = with_store(ctx, read)
    if as_json:
        output.write_json({"schedule": state.name, "times": times})
    elif times:
        zone = state.plan.times.hours.zone
        rows = [[_time(at), _local(at.astimezone(zone))] for at in times]
        output.table([Column("UTC"), Column(state.plan.times.hours.tz)], rows)
    else:
        output.note(f"{state.name} does not fire: it is disabled, withdrawn, or has no time within five years")


@schedules.command("fires", examples=("nightly", "nightly --limit 100 -o csv"))
@click.argument("name", shell_complete=completing.schedules)
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, metavar="N", help="How many at most."
)
@listing.form
@click.pass_context
def fires(ctx: click.Context, *, name: str, limit: int, form: listing.Form) -> None:
    """Show what came of the last times of a schedule."""

    async def read(session: Session) -> list[FireRow]:
        _named(await session.client.stored_schedules(), name)
        return await session.client.fires(name, limit)

    found = with_store(ctx, read)
    ids = [public_id.encode(fire.job_id) for fire in found if fire.job_id is not None]
    shape = {"fires": cluster_shapes.fires(found)}
    listing.write(form, shape, _FIRES, [_fire(fire) for fire in found], ids=ids, empty=f"{name} has not fired yet")


def _fire(fire: FireRow) -> list[Cell]:
    return [
        _time(fire.nominal),
        Cell(fire.outcome),
        Cell("" if fire.job_id is None else public_id.encode(fire.job_id)),
        Cell(fire.note or ""),
    ]


@schedules.command("run", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@click.pass_context
def run(ctx: click.Context, *, name: str) -> None:
    """Make a job of a schedule now, beside its times."""

    async def work(session: Session) -> int:
        return await session.client.run_schedule(name)

    output.line(public_id.encode(with_store(ctx, work)))


@schedules.command("enable", examples=("nightly --actor alice",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def enable(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule fire again from now on."""
    _change(ctx, lambda session: session.client.enable_schedule(name, actor=actor), "enabled")


@schedules.command("disable", examples=("nightly --actor alice",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def disable(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule fire no more until it is enabled."""
    _change(ctx, lambda session: session.client.disable_schedule(name, actor=actor), "disabled")


@schedules.command("reset", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@options.actor
@click.pass_context
def reset(ctx: click.Context, *, name: str, actor: str | None) -> None:
    """Let a schedule be again as programs define it."""
    _change(ctx, lambda session: session.client.reset_schedule(name, actor=actor), "reset")


@schedules.command("delete", examples=("nightly",))
@click.argument("name", shell_complete=completing.schedules)
@click.pass_context
def delete(ctx: click.Context, *, name: str) -> None:
    """Forget a schedule that no program defines."""

    async def work(session: Session) -> None:
        await session.client.delete_schedule(name)

    with_store(ctx, work)
    output.line(f"{name} is deleted")


@schedules.command("close", examples=("release --from 02:00 --to 04:00 --days sun --tz Europe/Berlin",))
@click.argument("name")
@click.option("--from", "start", metavar="HH:MM", help="When the window opens, in local time. [default: whole days]")
@click.option("--to", "end", metavar="HH:MM", help="When it ends.")
@click.option("--days", metavar="DAYS", help="Weekdays: mon-fri, or sat,sun.")
@click.option("--date", "dates", multiple=True, metavar="DATE", help="A day like 2026-12-24; may be repeated.")
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="Of these times.")
@options.reason
@options.actor
@click.pass_context
def close(
    ctx: click.Context,
    *,
    name: str,
    start: str | None,
    end: str | None,
    days: str | None,
    dates: tuple[str, ...],
    tz: str,
    reason: str | None,
    actor: str | None,
) -> None:
    """Let no schedule fire during a maintenance window.

    Times that fall into it are recorded and left out. NAME is yours to choose; `schedules open NAME` takes it back.
    """
    if (start is None) != (end is None):
        message = "--from and --to belong together; give both or none"
        raise click.UsageError(message, ctx)
    window = None if start is None or end is None else (start, end)

    async def work(session: Session) -> str:
        closed = await session.client.close_schedules(
            name, window=window, days=days, tz=tz, dates=dates or None, actor=actor, reason=reason
        )
        return closed.describe()

    output.line(f"no schedule fires {with_store(ctx, work)}")


@schedules.command("open", examples=("release",))
@click.argument("name")
@click.pass_context
def reopen(ctx: click.Context, *, name: str) -> None:
    """Take a maintenance window back."""

    async def work(session: Session) -> bool:
        return await session.client.open_schedules(name)

    if not with_store(ctx, work):
        message = f"there is no maintenance window {name!r}"
        raise ScheduleNotFound(message)
    output.line(f"{name} is open")


def _change(ctx: click.Context, work: Callable[[Session], Awaitable[ScheduleState]], done: str) -> None:
    state = with_store(ctx, work)
    following = state.following(datetime.now(UTC), 1)
    then = f"; next at {ages.iso(following[0])}" if following else ""
    output.line(f"{state.name} {done}{then}")


def _named(states: list[ScheduleState], name: str) -> ScheduleState:
    for state in states:
        if state.name == name.lower():
            return state
    known = ", ".join(state.name for state in states[:10]) or "none"
    message = f"there is no schedule {name!r}; known are {known}"
    raise ScheduleNotFound(message)
