"""`holdfast jobs edit`."""

from collections.abc import Sequence

import click

from holdfast.cli import naming, options, replaying
from holdfast.cli.grammar import Verb

_EXAMPLES = (
    "htcx-2s16-z48b-09 to=b@example.org",
    "htcx-2s16-z48b-09 retries:=3 'sizes:=[80, 200]'",
    "htcx-2s16-z48b-09 --payload @arguments.json",
)


@click.command("edit", cls=Verb, examples=_EXAMPLES)
@click.argument("job_id", metavar="ID")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--payload", metavar="JSON|-|@FILE", help="What differs as one JSON object: itself, stdin, or a file.")
@options.actor
@options.as_json
@click.pass_context
def edit(
    ctx: click.Context,
    *,
    job_id: str,
    pairs: Sequence[str],
    payload: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Enqueue a finished job anew with other arguments.

    The id of the new job is printed. The old one stays as it is, and the new one names it as its origin. Only what
    differs is given: KEY=VALUE and KEY:=JSON as in `enqueue`, or --payload; arguments that are left out stay as they
    were, and so do secrets. The task checks the arguments.
    """
    if bool(pairs) == (payload is not None):
        message = f"expected either KEY=VALUE or --payload, got {'both' if pairs else 'neither'}"
        raise click.UsageError(message, ctx)
    changes = replaying.Changes(tuple(pairs), payload)
    replaying.replay_edited(ctx, naming.one(ctx, job_id), changes, actor, as_json=as_json)
