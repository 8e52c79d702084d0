"""`holdfast bulk list|show|pause|resume|cancel`."""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import click
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Noun
from holdfast.cli.live import drawn
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable, counted
from holdfast.client.bulk import filter_of
from holdfast.client.protocol import Client
from holdfast.errors import InvalidValue
from holdfast.remote import filters
from holdfast.resources.bulk import BulkOperation, BulkOperationList, BulkState

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


def _which(operation: BulkOperation) -> str:
    """Write the filter of an operation as it is typed; one that has no such form is written as its conditions."""
    try:
        return filters.written(filter_of(operation))
    except InvalidValue:
        return output.json_line(operation.which)


_OPERATIONS = ResourceTable[BulkOperation](
    Attribute("ID", lambda operation: operation.id, is_number=True),
    Attribute("VERB", lambda operation: operation.verb),
    Attribute("STATE", lambda operation: Cell(operation.state, style=_STYLES[operation.state])),
    Attribute("DONE", lambda operation: counted(operation.done), is_number=True),
    Attribute("REFUSED", lambda operation: counted(operation.refused), is_number=True),
    Attribute("OF", lambda operation: str(operation.expected), is_number=True),
    Attribute("STARTED", lambda operation: operation.started_at),
    Attribute("BY", lambda operation: operation.actor, is_flexible=True),
    Attribute("JOBS", _which, is_flexible=True),
    Attribute("ERROR", lambda operation: operation.error, is_flexible=True),
)

_number = click.argument("number", type=click.IntRange(1), metavar="ID")


@click.group("bulk", cls=Noun, examples=("list", "pause 17", "show 17 --wait"))
def bulk() -> None:
    """Follow, pause and cancel bulk operations."""


@bulk.command("list", examples=("", "-o id", "--json"))
@options.number("--limit", 20, "How many at most.")
@listing.form
@click.pass_context
def list_operations(ctx: click.Context, *, limit: int, form: listing.Form) -> None:
    """List bulk operations of the last 30 days, newest first."""
    operations = with_store(ctx, lambda session: session.client.bulk.list(limit))
    empty = "there was no bulk operation within the last 30 days"
    listing.write(form, BulkOperationList(operations=operations), *_OPERATIONS.of(operations), empty=empty)


@bulk.command("show", examples=("17", "17 --wait", "17 --json"))
@_number
@click.option("--wait", is_flag=True, help="Wait until it has finished.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, number: int, wait: bool, as_json: bool) -> None:
    """Show one bulk operation: how far it is.

    With --wait the command shows its progress until it has finished, and exit code 1 says that it failed. Ctrl-C stops
    the waiting, not the operation.
    """
    seen: list[BulkOperation] = []

    async def look(session: Session) -> BulkOperation:
        seen.append(await session.client.bulk.get(number))
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
@_number
@options.as_json
@click.pass_context
def pause(ctx: click.Context, *, number: int, as_json: bool) -> None:
    """Pause an operation after the batch that it is at."""
    _change(ctx, lambda client: client.bulk.pause(number), as_json=as_json)


@bulk.command("resume", examples=("17",))
@_number
@options.as_json
@click.pass_context
def resume(ctx: click.Context, *, number: int, as_json: bool) -> None:
    """Let a paused operation go on where it was."""
    _change(ctx, lambda client: client.bulk.resume(number), as_json=as_json)


@bulk.command("cancel", examples=("17",))
@_number
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, *, number: int, as_json: bool) -> None:
    """End an operation before its time; what is done stays done."""
    _change(ctx, lambda client: client.bulk.cancel(number), as_json=as_json)


def _change(ctx: click.Context, change: Callable[[Client], Awaitable[BulkOperation]], *, as_json: bool) -> None:
    write(with_store(ctx, lambda session: change(session.client)), as_json=as_json)


async def follow(client: Client, operation: BulkOperation, *, quiet: bool) -> BulkOperation:
    """Show on stderr how far an operation is, until it has ended."""
    with _drawn(quiet=quiet) as draw:
        moved, moved_at = _step(operation), time.monotonic()
        while operation.state is BulkState.RUNNING:
            draw(operation)
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(TimeoutError):
                operation = await client.bulk.get(operation.id)
            if _step(operation) != moved:
                moved, moved_at = _step(operation), math.inf  # a service works on it
            elif time.monotonic() - moved_at > _PATIENCE_S:
                output.note("no service has begun with it: does a worker run, or `services run`?")
                moved_at = math.inf
    return operation


def leave(ctx: click.Context, operation: BulkOperation) -> None:
    """Stop waiting after Ctrl-C; the operation goes on."""
    output.note(
        f"stopped waiting: bulk operation {operation.id} goes on; see `bulk show {operation.id}`, or end it with"
        f" `bulk cancel {operation.id}`"
    )
    ctx.exit(Exit.INTERRUPTED)


def _step(operation: BulkOperation) -> tuple[int, int]:
    return operation.done + operation.refused, operation.errors


@contextlib.contextmanager
def _drawn(*, quiet: bool) -> Iterator[Callable[[BulkOperation], None]]:
    """Draw a bar on a terminal, or else write a line whenever something has moved."""
    last: list[tuple[int, int]] = []

    def tell(operation: BulkOperation) -> None:
        if not quiet and _step(operation) not in last:
            last[:] = [_step(operation)]
            output.note(f"bulk operation {operation.id}: {_progress(operation)}")

    if quiet:
        yield tell
        return
    with drawn(sys.stderr) as draw:
        yield tell if draw is None else lambda operation: draw(_bar(operation))


def _bar(operation: BulkOperation) -> Table:
    expected = operation.expected
    bar = ProgressBar(
        total=max(expected.jobs, 1),
        completed=min(operation.done + operation.refused, expected.jobs),
        pulse=expected.capped,
        width=_BAR,
    )
    line = Table.grid(padding=(0, 2))
    title = Text(f"bulk operation {operation.id}", style="bold")
    line.add_row(title, Text(operation.verb), bar, Text(output.one_line(_progress(operation))))
    return line


def write(operation: BulkOperation, *, as_json: bool) -> None:
    """Print an operation."""
    output.answer(
        operation,
        f"bulk operation {operation.id}: {operation.verb} {operation.state}, {_progress(operation)}",
        as_json=as_json,
    )


def _progress(operation: BulkOperation) -> str:
    refused = f", {operation.refused:,} refused" if operation.refused else ""
    error = ""
    if operation.error is not None:
        error = f"; errors in a row: {operation.errors}, the last: {operation.error}"
    return f"{operation.done:,} of {operation.expected} done{refused}{error}"
