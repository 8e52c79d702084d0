"""`holdfast limits list` and `holdfast limits show`."""

import click

from holdfast import ages
from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.resources.limit import LimitInfo, LimitKey, LimitList, SlotHolder

_COUNTED = 10_000


def _holds_for(limit: LimitInfo) -> str:
    return ", ".join([*([f"queue {limit.queue}"] if limit.queue else []), *limit.kinds]) or "-"


_LIMITS = ResourceTable[LimitInfo](
    Attribute("NAME", lambda limit: limit.name, is_flexible=True),
    Attribute("HOLDS FOR", _holds_for, is_flexible=True),
    Attribute("KEY", lambda limit: limit.key_path or "-"),
    Attribute("SAYS", lambda limit: limit.words),
    Attribute("RUNNING", lambda limit: "-" if limit.maximum is None else str(limit.taken), is_number=True),
    Attribute("FREE", lambda limit: "-" if limit.available is None else str(limit.available), is_number=True),
    Attribute("HELD", lambda limit: "10,000+" if limit.held > _COUNTED else str(limit.held), is_number=True),
)
_KEYS = ResourceTable[LimitKey](
    Attribute("KEY", lambda used: used.key or "-", is_flexible=True),
    Attribute("OF", lambda used: used.unit),
    Attribute("FREE", lambda used: Cell(str(used.available), style="" if used.available else "yellow"), is_number=True),
    Attribute("MAXIMUM", lambda used: used.maximum, is_number=True),
    Attribute("NEXT", lambda used: used.next_at or "-"),
)
_HOLDERS = ResourceTable[SlotHolder](
    Attribute("KEY", lambda holder: holder.key or "-", is_flexible=True),
    Attribute("JOB", lambda holder: holder.job),
    Attribute("CLAIM", lambda holder: holder.claim, is_number=True),
    Attribute("SINCE", lambda holder: holder.since or "-"),
)


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
    listing.write(form, LimitList(limits=found), *_LIMITS.of(found), empty="no limit is in force")


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
    limit, now = listing.read(ctx, lambda session: session.client.limits.get(name, key))
    if as_json:
        output.write_json(limit)
        return
    output.table(*_LIMITS.of([limit]))
    if limit.next_at is not None and limit.next_at > now:
        output.note(f"the next start has its turn at {ages.iso(limit.next_at)}")
    if limit.keys:
        output.table(*_KEYS.of(limit.keys, now))
    if limit.has_more_keys:
        output.note("and more keys are in use that have more left")
    if limit.holders:
        output.table(*_HOLDERS.of(limit.holders, now))
