"""`holdfast tasks list`."""

from collections.abc import Iterator, Sequence

import click

from holdfast.cli import listing, locate, task_shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.cli.task_shapes import TaskShape
from holdfast.client.definitions import read_definitions
from holdfast.stores.policies import KindRow

_COLUMNS = (
    Column("KIND"),
    Column("QUEUE"),
    Column("CADENCE", is_flexible=True),
    Column("HANDLER", is_flexible=True),
    Column("POLICY", is_flexible=True),
)


@click.group("tasks", cls=Noun, examples=("list", "list --stored --json"))
def tasks() -> None:
    """Look at the kinds of jobs there are."""


@tasks.command("list", examples=("", "--stored", "-o id", "--json"))
@click.option("--stored", is_flag=True, help="Those that programs have published, instead of the app's own.")
@listing.form
@click.pass_context
def list_tasks(ctx: click.Context, *, stored: bool, form: listing.Form) -> None:
    """List kinds: their queue, cadence, handler and policies.

    Of the app, from its code and configuration; where only a store or a server is named, what programs have published
    there.
    """
    rows: Sequence[KindRow]
    if stored or locate.server(ctx) is not None or not (found := locate.app_or_store(ctx))[1]:
        rows = with_store(ctx, _read_stored)
    else:
        app = found[0]
        rows = read_definitions(app.settings, app.tasks, app.schedules.values()).kinds
    shapes = [task_shapes.task(row) for row in sorted(rows, key=lambda row: row.name)]
    empty = "there are none: is the module that defines the tasks imported, or has a worker been started?"
    rows_shown = [_row(shape) for shape in shapes]
    listing.write(form, task_shapes.TasksShape(shapes), _COLUMNS, rows_shown, empty=empty)


async def _read_stored(opened: Session) -> list[KindRow]:
    return await opened.client.kinds()


def _row(shape: TaskShape) -> list[Cell]:
    return [
        Cell(shape.kind),
        Cell(shape.queue),
        Cell("; ".join(shape.cadence)),
        Cell(shape.handler),
        Cell(", ".join(_policies(shape))),
    ]


def _policies(shape: TaskShape) -> Iterator[str]:
    if shape.note is not None:
        yield shape.note
    yield f"{shape.max_attempts} attempt{'' if shape.max_attempts == 1 else 's'}"
    yield "no timeout" if shape.timeout_ms is None else f"timeout {shape.timeout_ms / 1_000:g} s"
    if shape.limits:
        yield f"limits {' '.join(shape.limits)}"
    if shape.budget is not None:
        yield f"budget {shape.budget}" + ("" if shape.estimate is None else f" ({shape.estimate} each)")
    if shape.debounce_ms is not None:
        by = "" if shape.debounce_key is None else f" by {shape.debounce_key}"
        yield f"debounced {shape.debounce_ms / 1_000:g} s{by}"
