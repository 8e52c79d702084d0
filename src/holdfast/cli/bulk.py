"""`holdfast bulk list|show|pause|resume|cancel`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime

import click

from holdfast.cli import ages, dead_shapes, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.client import Client
from holdfast.stores.bulk import COUNT_CAP, BulkRun, BulkState

_LOOK_S = 0.5
_STYLES = {
    BulkState.RUNNING: "cyan",
    BulkState.PAUSED: "yellow",
    BulkState.CANCELLED: "bright_black",
    BulkState.ENDED: "green",
    BulkState.FAILED: "red",
}
_COLUMNS = (
    Column("RUN", is_number=True),
    Column("VERB"),
    Column("STATE"),
    Column("DONE", is_number=True),
    Column("REFUSED", is_number=True),
    Column("OF", is_number=True),
    Column("STARTED"),
    Column("BY", is_flexible=True),
    Column("JOBS", is_flexible=True),
    Column("ERROR", is_flexible=True),
)


@click.group("bulk", cls=Noun, examples=("list", "pause 17", "show 17 --wait"))
def bulk() -> None:
    """Look at what is done to many jobs at once, pause and cancel it."""


@bulk.command("list", examples=("", "--json"))
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, metavar="N")
@options.as_json
@click.pass_context
def list_runs(ctx: click.Context, *, limit: int, as_json: bool) -> None:
    """List bulk runs of the last 30 days, newest first."""
    runs = with_store(ctx, lambda session: session.client.bulk_runs(limit))
    if as_json:
        output.write_json(dead_shapes.BulkRunsShape([dead_shapes.bulk_run(run) for run in runs]))
    elif runs:
        now = ages.now()
        output.table(_COLUMNS, [_row(run, now) for run in runs])
    else:
        output.note("there was no run within the last 30 days")


@bulk.command("show", examples=("17", "17 --wait", "17 --json"))
@click.argument("run", type=int)
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, run: int, wait: bool, as_json: bool) -> None:
    """Show one bulk run: how far it is.

    With --wait its progress is told until it has ended; Ctrl-C stops the waiting and not the run.
    """

    async def look(session: Session) -> BulkRun:
        found = await session.client.bulk_run(run)
        return await follow(session.client, found, quiet=as_json) if wait else found

    write(with_store(ctx, look), as_json=as_json)


@bulk.command("pause", examples=("17",))
@click.argument("run", type=int)
@options.as_json
@click.pass_context
def pause(ctx: click.Context, *, run: int, as_json: bool) -> None:
    """Let a run stand still."""
    _change(ctx, lambda client: client.pause_bulk(run), as_json=as_json)


@bulk.command("resume", examples=("17",))
@click.argument("run", type=int)
@options.as_json
@click.pass_context
def resume(ctx: click.Context, *, run: int, as_json: bool) -> None:
    """Let a paused run go on where it was."""
    _change(ctx, lambda client: client.resume_bulk(run), as_json=as_json)


@bulk.command("cancel", examples=("17",))
@click.argument("run", type=int)
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, *, run: int, as_json: bool) -> None:
    """End a run before its time; what is done stays done."""
    _change(ctx, lambda client: client.cancel_bulk(run), as_json=as_json)


def _change(ctx: click.Context, change: Callable[[Client], Awaitable[BulkRun]], *, as_json: bool) -> None:
    write(with_store(ctx, lambda session: change(session.client)), as_json=as_json)


async def follow(client: Client, run: BulkRun, *, quiet: bool) -> BulkRun:
    """Tell on stderr how far a run is until it has ended, or nobody waits for it any more."""
    told = (-1, 0)
    while run.state is BulkState.RUNNING:
        if (run.step, run.errors) != told and not quiet:
            output.note(f"run {run.id}: {_progress(run)}")
            told = (run.step, run.errors)
        await asyncio.sleep(_LOOK_S)
        with contextlib.suppress(TimeoutError):
            run = await client.bulk_run(run.id)
    return run


def write(run: BulkRun, *, as_json: bool) -> None:
    """Print a run."""
    if as_json:
        output.write_json(dead_shapes.bulk_run(run))
    else:
        output.line(f"run {run.id}: {run.verb} {run.state}, {_progress(run)}")


def number(count: int) -> str:
    """Write a count that was bounded."""
    return f"{COUNT_CAP - 1:,}+" if count >= COUNT_CAP else f"{count:,}"


def _progress(run: BulkRun) -> str:
    refused = f", {run.refused:,} refused" if run.refused else ""
    error = "" if run.error is None else f"; errors in a row: {run.errors}, the last: {run.error}"
    return f"{run.done:,} of {number(run.expected)} done{refused}{error}"


def _row(run: BulkRun, now: datetime) -> list[Cell]:
    shown = dead_shapes.bulk_run(run).which
    return [
        Cell(str(run.id)),
        Cell(run.verb),
        Cell(run.state, style=_STYLES[run.state]),
        Cell(f"{run.done:,}", str(run.done)),
        Cell(f"{run.refused:,}", str(run.refused)),
        Cell(number(run.expected)),
        Cell(ages.age(run.started_at, now), ages.iso(run.started_at)),
        Cell(run.actor or ""),
        Cell(", ".join(f"{name}={_written(value)}" for name, value in shown.items())),
        Cell(run.error or ""),
    ]


def _written(value: object) -> str:
    return "|".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
