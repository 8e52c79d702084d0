"""`holdfast limits list` and `holdfast limits show`."""

from datetime import datetime

import click

from holdfast import ages
from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.resources.limit import LimitInfo, LimitKey, LimitList, SlotHolder

_COLUMNS = (
    Column("NAME", is_flexible=True),
    Column("HOLDS FOR", is_flexible=True),
    Column("KEY"),
    Column("SAYS"),
    Column("RUNNING", is_number=True),
    Column("FREE", is_number=True),
    Column("HELD", is_number=True),
)
_COUNTED = 10_000
_KEYS = (
    Column("KEY", is_flexible=True),
    Column("OF"),
    Column("FREE", is_number=True),
    Column("MAXIMUM", is_number=True),
    Column("NEXT"),
)
_HOLDERS = (Column("KEY", is_flexible=True), Column("JOB"), Column("CLAIM", is_number=True), Column("SINCE"))


@click.group("limits", cls=Noun, examples=("list", "show screenshot"))
def limits() -> None:
    """List the limits in force, and who is under them."""


@limits.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_limits(ctx: click.Context, *, form: listing.Form) -> None:
    """List the limits in force.

    What each says, how many jobs run under it, and how many are held.
    """
    found = with_store(ctx, lambda session: session.client.limits.list())
    listing.write(form, LimitList(limits=found), _COLUMNS, list(map(_row, found)), empty="no limit is in force")


@limits.command("show", examples=("screenshot", "tenant --key acme", "tenant --json"))
@click.argument("name", shell_complete=completing.limits)
@click.option("--key", help="Only what is under this key.")
@options.as_json
@click.pass_context
def show_limit(ctx: click.Context, name: str, key: str | None, *, as_json: bool) -> None:
    """Show one limit.

    What it says, how much of it is in use, which keys have used up most of it (the first 50 of those used last), and
    which jobs hold its slots (the first 100).
    """

    async def read(session: Session) -> tuple[LimitInfo, datetime]:
        return await session.client.limits.get(name, key), await session.now()

    limit, now = with_store(ctx, read)
    if as_json:
        output.write_json(limit)
        return
    output.table(_COLUMNS, [_row(limit)])
    if limit.next_at is not None and limit.next_at > now:
        output.note(f"the next start has its turn at {ages.iso(limit.next_at)}")
    if limit.keys:
        output.table(_KEYS, [_key(used, now) for used in limit.keys])
    if limit.has_more_keys:
        output.note("and more keys are in use that have more left")
    if limit.holders:
        output.table(_HOLDERS, [_holder(holder, now) for holder in limit.holders])


def _row(limit: LimitInfo) -> list[Cell]:
    holds_for = [*([f"queue {limit.queue}"] if limit.queue else []), *limit.kinds]
    return [
        Cell(limit.name),
        Cell(", ".join(holds_for) or "-"),
        Cell(limit.key_path or "-"),
        Cell(limit.words),
        Cell("-" if limit.maximum is None else str(limit.taken)),
        Cell("-" if limit.available is None else str(limit.available)),
        Cell("10,000+" if limit.held > _COUNTED else str(limit.held)),
    ]


def _key(used: LimitKey, now: datetime) -> list[Cell]:
    available = Cell(str(used.available), style="yellow" if used.available == 0 else "")
    after = Cell("-") if used.next_at is None else Cell(ages.age(used.next_at, now), ages.iso(used.next_at))
    return [Cell(used.key or "-"), Cell(used.unit), available, Cell(str(used.maximum)), after]


def _holder(holder: SlotHolder, now: datetime) -> list[Cell]:
    since = Cell("-") if holder.since is None else Cell(ages.age(holder.since, now), ages.iso(holder.since))
    return [Cell(holder.key or "-"), Cell(holder.job), Cell(str(holder.claim)), since]
