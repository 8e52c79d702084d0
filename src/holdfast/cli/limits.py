"""`holdfast limits list` and `holdfast limits show`."""

from datetime import datetime

import click

from holdfast import ages, public_id
from holdfast.cli import completing, limit_shapes, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.stores.limits import LimitBucket, LimitRow, LimitUsage, SlotHolder

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
_BUCKETS = (
    Column("KEY", is_flexible=True),
    Column("OF"),
    Column("LEFT", is_number=True),
    Column("MOST", is_number=True),
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

    async def read(session: Session) -> list[tuple[LimitRow, LimitUsage]]:
        return [(row, await session.client.limit(row.name).usage()) for row in await session.client.limits()]

    found = with_store(ctx, read)
    shape = limit_shapes.LimitsShape([limit_shapes.limit(row, usage) for row, usage in found])
    listing.write(form, shape, _COLUMNS, [_row(row, usage) for row, usage in found], empty="no limit is in force")


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

    async def read(session: Session) -> tuple[LimitRow, LimitUsage, datetime]:
        usage = await session.client.limit(name).usage(key)
        row = next(row for row in await session.client.limits() if row.name == usage.name)
        return row, usage, await session.now()

    row, usage, now = with_store(ctx, read)
    if as_json:
        output.write_json(limit_shapes.limit(row, usage))
        return
    output.table(_COLUMNS, [_row(row, usage)])
    if usage.next_at is not None and usage.next_at > now:
        output.note(f"the next start has its turn at {ages.iso(usage.next_at)}")
    if usage.buckets:
        output.table(_BUCKETS, [_bucket(bucket, now) for bucket in usage.buckets])
    if usage.has_more_buckets:
        output.note("and more keys are in use that have more left")
    if usage.holders:
        output.table(_HOLDERS, [_holder(holder, now) for holder in usage.holders])


def _row(row: LimitRow, usage: LimitUsage) -> list[Cell]:
    holds_for = [*([f"queue {row.queue}"] if row.queue else []), *row.kinds]
    return [
        Cell(row.name),
        Cell(", ".join(holds_for) or "-"),
        Cell(".".join(row.path) or "-"),
        Cell(row.words),
        Cell("-" if usage.most is None else str(usage.taken)),
        Cell("-" if usage.available is None else str(usage.available)),
        Cell("10,000+" if usage.held > _COUNTED else str(usage.held)),
    ]


def _bucket(bucket: LimitBucket, now: datetime) -> list[Cell]:
    left = Cell(str(bucket.left), style="yellow" if bucket.left == 0 else "")
    after = Cell("-") if bucket.next_at is None else Cell(ages.age(bucket.next_at, now), ages.iso(bucket.next_at))
    return [Cell(bucket.key or "-"), Cell(bucket.sort), left, Cell(str(bucket.most)), after]


def _holder(holder: SlotHolder, now: datetime) -> list[Cell]:
    since = Cell("-") if holder.since is None else Cell(ages.age(holder.since, now), ages.iso(holder.since))
    return [Cell(holder.key or "-"), Cell(public_id.encode(holder.job_id)), Cell(str(holder.claim)), since]
