"""`holdfast locks list`."""

from datetime import datetime

import click

from holdfast import public_id
from holdfast.cli import ages, lock_shapes, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.stores.cluster import LockRow

_COLUMNS = (
    Column("NAME", is_flexible=True),
    Column("OWNER", is_flexible=True),
    Column("JOB"),
    Column("SINCE"),
    Column("WAITING", is_number=True),
    Column("TOKEN", is_number=True),
)


@click.group("locks", cls=Noun, examples=("list",))
def locks() -> None:
    """List the locks that are held."""


@locks.command("list", examples=("", "--json"))
@options.as_json
@click.pass_context
def list_locks(ctx: click.Context, *, as_json: bool) -> None:
    """List the locks that are held.

    Who holds each, as host and process, for which job, since when, and how many wait for it; the oldest 1,000.
    """

    async def read(session: Session) -> tuple[list[LockRow], datetime]:
        return await session.client.locks(), (await session.store.diagnose()).now

    rows, now = with_store(ctx, read)
    if as_json:
        output.write_json(lock_shapes.LocksShape([lock_shapes.lock(row) for row in rows]))
    elif rows:
        output.table(_COLUMNS, [_row(row, now) for row in rows])
    else:
        output.note("no lock is held")


def _row(row: LockRow, now: datetime) -> list[Cell]:
    return [
        Cell(row.name),
        Cell(row.owner),
        Cell("-" if row.job_id is None else public_id.encode(row.job_id)),
        Cell(ages.age(row.since, now), ages.iso(row.since)),
        Cell(str(row.waiters)),
        Cell(str(row.token)),
    ]
