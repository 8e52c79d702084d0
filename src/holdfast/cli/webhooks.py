"""`holdfast webhooks list|enable`."""

from datetime import datetime

import click

from holdfast import ages
from holdfast.cli import listing, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.stores.deliveries import Endpoint

_NAMED = 10
_COLUMNS = (
    Column("ENDPOINT", is_flexible=True),
    Column("PENDING", is_number=True),
    Column("DELIVERED", is_number=True),
    Column("FAILED", is_number=True),
    Column("STATUS", is_flexible=True),
)


@click.group("webhooks", cls=Noun, examples=("list", "enable https://example.org/hooks"))
def webhooks() -> None:
    """List the places of webhooks, and enable them again."""


@webhooks.command("list", examples=("", "-o id", "--json"))
@listing.form
@click.pass_context
def list_webhooks(ctx: click.Context, *, form: listing.Form) -> None:
    """List the places that webhooks are posted to.

    How many messages wait, were delivered and were given up, among the last 10,000, and which places are disabled,
    since when and why. The query of a URL is no part of the place.
    """
    rows = with_store(ctx, lambda session: session.client.endpoints())
    now = ages.now()
    shape = shapes.EndpointsShape([shapes.endpoint(row) for row in rows])
    empty = "no webhook is known yet: none was to be posted, and no place is disabled"
    listing.write(form, shape, _COLUMNS, [_row(row, now) for row in rows], empty=empty)


@webhooks.command("enable", examples=("https://example.org/hooks",))
@click.argument("url")
@options.as_json
@click.pass_context
def enable(ctx: click.Context, *, url: str, as_json: bool) -> None:
    """Let webhooks be posted again to a place that answered 410 Gone.

    URL is the place as `webhooks list` shows it; a query is left out. Messages that waited meanwhile are posted then.
    """
    place = url.partition("?")[0]

    async def change(session: Session) -> tuple[bool, Endpoint]:
        rows = {row.endpoint: row for row in await session.client.endpoints()}
        was_disabled = await session.client.enable_endpoint(place)
        if not was_disabled and place not in rows:
            known = ", ".join(list(rows)[:_NAMED]) or "none"
            message = f"enable {place}: there is no such place, so it is not disabled either; known are {known}"
            raise Refusal(message, Exit.NOT_FOUND, kind="EndpointNotFound")
        after = {row.endpoint: row for row in await session.client.endpoints()}
        return was_disabled, after.get(place, Endpoint(place, None, None, 0, 0, 0))

    was_disabled, row = with_store(ctx, change)
    if as_json:
        output.write_json(shapes.endpoint(row))
    else:
        output.line(f"{place} {'enabled' if was_disabled else 'was not disabled'}")


def _row(row: Endpoint, now: datetime) -> list[Cell]:
    status, piped, style = "enabled", "enabled", "green"
    if row.disabled_at is not None:
        why = f": {row.reason}" if row.reason else ""
        status, style = f"disabled {ages.age(row.disabled_at, now)}{why}", "red"
        piped = f"disabled {ages.iso(row.disabled_at)}{why}"
    counts = (f"{number:,}" for number in (row.pending, row.delivered, row.failed))
    return [Cell(row.endpoint), *(Cell(number) for number in counts), Cell(status, piped, style)]
