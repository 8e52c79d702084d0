"""`holdfast workers list|drain`."""

from datetime import datetime

import click

from holdfast import ages, sizes
from holdfast.cli import listing, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun, program_of
from holdfast.cli.output import Cell, Column
from holdfast.stores.values import WorkerRow

_ALIVE, _LEAVING, _ENDED, _DEAD = "alive", "leaving", "lease ended", "dead"
_STYLES = {_ALIVE: "green", _LEAVING: "cyan", _ENDED: "yellow", _DEAD: "bright_black"}
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
    Column("MEMORY", is_number=True, is_spare=True),
)


@click.group("workers", cls=Noun, examples=("list", "list --all", "drain 17"))
def workers() -> None:
    """List the processes that run jobs, and ask them to leave."""


@workers.command("list", examples=("", "--all", "-o id", "--json"))
@click.option("--all", "with_dead", is_flag=True, help="Also those that died and whose jobs were given back.")
@listing.form
@click.pass_context
def list_workers(ctx: click.Context, *, with_dead: bool, form: listing.Form) -> None:
    """List the processes that run jobs.

    Each process of `worker` is one line; those started together share an instance. SEEN is when it last renewed its
    lease, and MEMORY what it had then; one whose lease ended is not trusted any more, and its jobs are about to be
    given to others. One that is leaving was asked to with `workers drain`.
    """

    async def read(session: Session) -> tuple[list[WorkerRow], datetime]:
        return await session.client.workers(), await session.now()

    rows, now = with_store(ctx, read)
    shown = [row for row in rows if with_dead or row.dead_at is None]
    shape = shapes.WorkersShape([shapes.worker(row, _state(row, now)) for row in shown])
    empty = f"no worker is alive; start one with `{program_of(ctx)} worker`"
    listing.write(form, shape, _COLUMNS, [_row(row, now) for row in shown], empty=empty)
    if form is listing.Form.TABLE and len(shown) < len(rows):
        output.note(f"{len(rows) - len(shown)} dead not shown: --all")


@workers.command("drain", examples=("17", "619c2b4f --actor alice", "17 --json"))
@click.argument("worker", metavar="WORKER|INSTANCE")
@options.actor
@options.as_json
@click.pass_context
def drain(ctx: click.Context, *, worker: str, actor: str | None, as_json: bool) -> None:
    """Ask the instance of a worker to leave, as one SIGTERM would.

    WORKER is the id of one of its processes; INSTANCE its own name or the beginning of it. Within seconds it claims
    nothing more, lets what runs end within the app's shutdown grace, and all its processes leave with exit code 0.
    What has started it, such as systemd or Kubernetes, may start another.
    """

    async def ask(session: Session) -> tuple[list[WorkerRow], datetime]:
        return await session.client.drain_worker(worker, actor=actor), await session.now()

    rows, now = with_store(ctx, ask)
    if as_json:
        output.write_json(shapes.WorkersShape([shapes.worker(row, _state(row, now)) for row in rows]))
        return
    for row in rows:
        output.line(f"{row.id} ({row.info.host}, process {row.info.pid}) leaves; it runs {row.running} jobs")
    if not rows:
        output.note("it has left already")


def _state(row: WorkerRow, now: datetime) -> str:
    if row.dead_at is not None:
        return _DEAD
    if row.lease_until < now:
        return _ENDED
    return _ALIVE if row.drain_at is None else _LEAVING


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
        _memory(row.memory_bytes),
    ]


def _memory(count: int | None) -> Cell:
    return Cell("-") if count is None else Cell(sizes.size(count), str(count))
