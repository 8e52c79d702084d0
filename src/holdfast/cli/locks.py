"""`holdfast locks list|release`."""

import sys
from datetime import datetime

import click

from holdfast import ages, public_id
from holdfast.cli import completing, listing, lock_shapes, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
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


@click.group("locks", cls=Noun, examples=("list", "release edition:42"))
def locks() -> None:
    """List the locks that are held, and take one away."""


@locks.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_locks(ctx: click.Context, *, form: listing.Form) -> None:
    """List the locks that are held.

    Who holds each, as host and process, for which job, since when, and how many wait for it; the oldest 1,000.
    """

    async def read(session: Session) -> tuple[list[LockRow], datetime]:
        return await session.client.locks(), await session.now()

    rows, now = with_store(ctx, read)
    shape = lock_shapes.LocksShape([lock_shapes.lock(row) for row in rows])
    listing.write(form, shape, _COLUMNS, [_row(row, now) for row in rows], empty="no lock is held")


@locks.command("release", examples=("edition:42", "edition:42 --yes --json"))
@click.argument("name", shell_complete=completing.locks)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@options.as_json
@click.pass_context
def release(ctx: click.Context, *, name: str, yes: bool, as_json: bool) -> None:
    """Take a lock from whoever holds it, for a holder that hangs.

    The next in line gets it at once. The old holder is stopped within seconds; until then both may work, and only a
    fencing token tells them apart. A lock whose process has died needs no such thing: it ends by itself.
    """
    if not yes:
        _confirm(ctx, name)

    async def take(session: Session) -> LockRow:
        held = next((row for row in await session.client.locks() if row.name == name), None)
        if held is None or not await session.client.break_lock(name, held.token):
            message = f"release {name}: nobody holds such a lock; `locks list` names those that are held"
            raise Refusal(message, Exit.NOT_FOUND, kind="LockNotFound")
        return held

    row = with_store(ctx, take)
    if as_json:
        output.write_json(lock_shapes.lock(row))
    else:
        output.line(f"{row.name} was taken from {row.owner}")


def _confirm(ctx: click.Context, name: str) -> None:
    if not sys.stdin.isatty():
        message = f"releasing {name} while its holder works lets two work at once; say so with --yes"
        raise click.UsageError(message, ctx)
    shown = output.one_line(name)
    click.confirm(f"take the lock {shown} from its holder, which may still work?", abort=True, err=True)


def _row(row: LockRow, now: datetime) -> list[Cell]:
    return [
        Cell(row.name),
        Cell(row.owner),
        Cell("-" if row.job_id is None else public_id.encode(row.job_id)),
        Cell(ages.age(row.since, now), ages.iso(row.since)),
        Cell(str(row.waiters)),
        Cell(str(row.token)),
    ]
