"""`holdfast bulk list|show|pause|resume|cancel`."""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime

import click
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast import ages
from holdfast.cli import dead_shapes, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.client import Client
from holdfast.errors import InvalidValue
from holdfast.remote import filters
from holdfast.stores.bulk import COUNT_CAP, BulkRun, BulkState

_LOOK_S = 0.5
_PATIENCE_S = 10.0
_BAR = 24
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
    """Follow, pause and cancel what is done to many jobs."""


@bulk.command("list", examples=("", "-o id", "--json"))
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, metavar="N", help="How many at most."
)
@listing.form
@click.pass_context
def list_runs(ctx: click.Context, *, limit: int, form: listing.Form) -> None:
    """List bulk runs of the last 30 days, newest first."""
    runs = with_store(ctx, lambda session: session.client.bulk_runs(limit))
    now = ages.now()
    shape = dead_shapes.BulkRunsShape([dead_shapes.bulk_run(run) for run in runs])
    empty = "there was no run within the last 30 days"
    listing.write(form, shape, _COLUMNS, [_row(run, now) for run in runs], empty=empty)


@bulk.command("show", examples=("17", "17 --wait", "17 --json"))
@click.argument("run", type=int)
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, run: int, wait: bool, as_json: bool) -> None:
    """Show one bulk run: how far it is.

    With --wait its progress is told until it has ended, and exit code 1 says that it was given up; Ctrl-C stops the
    waiting and not the run.
    """
    seen: list[BulkRun] = []

    async def look(session: Session) -> BulkRun:
        seen.append(await session.client.bulk_run(run))
        return await follow(session.client, seen[0], quiet=as_json) if wait else seen[0]

    try:
        found = with_store(ctx, look)
    except KeyboardInterrupt:
        if not seen:
            raise
        leave(ctx, seen[0])
        return
    write(found, as_json=as_json)
    if wait and found.state is BulkState.FAILED:
        ctx.exit(Exit.ERROR)


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
    with _drawn(quiet=quiet) as draw:
        moved, moved_at = run.step, time.monotonic()
        while run.state is BulkState.RUNNING:
            draw(run)
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(TimeoutError):
                run = await client.bulk_run(run.id)
            if run.step != moved:
                moved, moved_at = run.step, math.inf  # somebody works on it
            elif time.monotonic() - moved_at > _PATIENCE_S:
                output.note("it has not begun yet: does a worker, or `services run`, run?")
                moved_at = math.inf
    return run


def leave(ctx: click.Context, run: BulkRun) -> None:
    """Stop waiting after Ctrl-C; the run goes on."""
    output.note(
        f"stopped waiting: run {run.id} goes on; see `bulk show {run.id}`, or end it with `bulk cancel {run.id}`"
    )
    ctx.exit(Exit.INTERRUPTED)


@contextlib.contextmanager
def _drawn(*, quiet: bool) -> Iterator[Callable[[BulkRun], None]]:
    """Draw a bar where a person reads along, or else write a line whenever something has moved."""
    told: list[tuple[int, int]] = []

    def tell(run: BulkRun) -> None:
        if not quiet and (run.step, run.errors) not in told:
            told[:] = [(run.step, run.errors)]
            output.note(f"run {run.id}: {_progress(run)}")

    console = None if quiet else output.live_console(sys.stderr)
    if console is None:
        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
        yield lambda run: live.update(_bar(run), refresh=True)


def _bar(run: BulkRun) -> Table:
    is_counted = run.expected < COUNT_CAP
    bar = ProgressBar(
        total=max(run.expected, 1),
        completed=min(run.done + run.refused, run.expected),
        pulse=not is_counted,
        width=_BAR,
    )
    line = Table.grid(padding=(0, 2))
    line.add_row(Text(f"run {run.id}", style="bold"), Text(run.verb), bar, Text(output.one_line(_progress(run))))
    return line


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
    return [
        Cell(str(run.id)),
        Cell(run.verb),
        Cell(run.state, style=_STYLES[run.state]),
        Cell(f"{run.done:,}", str(run.done)),
        Cell(f"{run.refused:,}", str(run.refused)),
        Cell(number(run.expected)),
        Cell(ages.age(run.started_at, now), ages.iso(run.started_at)),
        Cell(run.actor or ""),
        Cell(_which(run)),
        Cell(run.error or ""),
    ]


def _which(run: BulkRun) -> str:
    """Write the filter of a run as it is typed; one that has no such form is told by its conditions."""
    try:
        return filters.written(run.which)
    except InvalidValue:
        return output.json_line(dead_shapes.bulk_run(run).which)
