"""`holdfast workers list`."""

from datetime import datetime

import click

from holdfast.cli import ages, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun, program_of
from holdfast.cli.output import Cell, Column
from holdfast.stores.values import WorkerRow

_ALIVE, _ENDED, _DEAD = "alive", "lease ended", "dead"
_STYLES = {_ALIVE: "green", _ENDED: "yellow", _DEAD: "bright_black"}
_SHORT = 8
_COLUMNS = (
    Column("ID", is_number=True),
    Column("HOST", is_flexible=True),
    Column("PID", is_number=True),
    Column("INSTANCE", is_flexible=True),
    Column("VERSION", is_flexible=True),
    Column("QUEUES", is_flexible=True),
    Column("SLOTS", is_number=True),
    Column("JOBS", is_number=True),
    Column("STATE"),
    Column("SEEN"),
)


@click.group("workers", cls=Noun, examples=("list", "list --all"))
def workers() -> None:
    """List the processes that run jobs."""


@workers.command("list", examples=("", "--all", "--json"))
@click.option("--all", "with_dead", is_flag=True, help="Also those that died and whose jobs were given back.")
@options.as_json
@click.pass_context
def list_workers(ctx: click.Context, *, with_dead: bool, as_json: bool) -> None:
    """List the processes that run jobs.

    Each process of `worker` is one line; those started together share an instance. SEEN is when it last renewed its
    lease; one whose lease ended is not trusted any more, and its jobs are about to be given to others.
    """

    async def read(session: Session) -> tuple[list[WorkerRow], datetime]:
        return list(await session.store.list_workers()), (await session.store.diagnose()).now

    rows, now = with_store(ctx, read)
    shown = [row for row in rows if with_dead or row.dead_at is None]
    if as_json:
        output.write_json(shapes.WorkersShape([shapes.worker(row, _state(row, now)) for row in shown]))
        return
    if shown:
        output.table(_COLUMNS, [_row(row, now) for row in shown])
    else:
        output.note(f"no worker is alive; start one with `{program_of(ctx)} worker`")
    if len(shown) < len(rows):
        output.note(f"{len(rows) - len(shown)} dead not shown: --all")


def _state(row: WorkerRow, now: datetime) -> str:
    if row.dead_at is not None:
        return _DEAD
    return _ALIVE if row.lease_until >= now else _ENDED


def _row(row: WorkerRow, now: datetime) -> list[Cell]:
    info, state = row.info, _state(row, now)
    return [
        Cell(str(row.id)),
        Cell(info.host),
        Cell(str(info.pid)),
        Cell(info.instance[:_SHORT], info.instance),
        Cell(info.version or "unknown"),
        Cell(", ".join(info.queues) or "all"),
        Cell(str(info.concurrency)),
        Cell(str(row.running)),
        Cell(state, style=_STYLES[state]),
        Cell(ages.age(row.renewed_at, now), ages.iso(row.renewed_at)),
    ]
