"""`holdfast prune`."""

import click

from holdfast.cli import options, output, shapes
from holdfast.cli.connect import with_database
from holdfast.cli.grammar import Verb


@click.command("prune", cls=Verb, examples=("", "--json"))
@options.as_json
@click.pass_context
def prune(ctx: click.Context, *, as_json: bool) -> None:
    """Delete what has outlived its retention, now.

    Finished jobs, keys, events, webhook messages, and whatever else has a time to stay; workers do it every minute by
    themselves. On PostgreSQL finished jobs go by whole weeks, and one week counts as one. Nothing is deleted that its
    queue still keeps.
    """
    deleted = with_database(ctx, lambda session: session.client.prune())
    output.answer(
        shapes.PrunedShape(deleted), "1 row deleted" if deleted == 1 else f"{deleted:,} rows deleted", as_json=as_json
    )
