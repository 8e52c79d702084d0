"""`holdfast jobs clone`: a changed copy of a finished job; also `dlq replay JOB --set KEY=VALUE`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from holdfast.cli import arguments, locate, naming, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Verb
from holdfast.errors import ArgumentError
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact
from holdfast.tasks.registry import AnyTask

_EXAMPLES = (
    "htcx-2s16-z48b-09 to=b@example.org",
    "htcx-2s16-z48b-09 retries:=3 'sizes:=[80, 200]'",
    "htcx-2s16-z48b-09 --args @arguments.json",
)


@dataclass(frozen=True)
class Changes:
    """The arguments that differ, as they were typed: pairs, or one JSON object."""

    pairs: tuple[str, ...]
    args: str | None = None

    def read(self, old: Job, task: AnyTask | None, schema: dict[str, Any] | None) -> dict[str, Any]:
        """Read them; what is as it is shown of the old job has not changed, so that no cover becomes a secret."""
        if self.args is None:
            return msgspec.json.decode(arguments.read_pairs(task, self.pairs, schema), type=dict[str, Any])
        try:
            given = msgspec.json.decode(arguments.read_args(self.args), type=dict[str, Any])
        except msgspec.DecodeError as error:
            message = f"--args: expected a JSON object: {error}"
            raise ArgumentError(message) from error
        shown = redact(old).args if isinstance(old.args, dict) else {}
        return {name: value for name, value in given.items() if name not in shown or shown[name] != value}


@click.command("clone", cls=Verb, examples=_EXAMPLES)
@click.argument("job_id", metavar="ID")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", metavar="JSON|-|@FILE", help="What differs as one JSON object: itself, stdin, or a file.")
@options.actor
@options.as_json
@click.pass_context
def clone(
    ctx: click.Context,
    *,
    job_id: str,
    pairs: Sequence[str],
    args: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Enqueue a changed copy of a finished job.

    The id of the new job is printed. The old one stays as it is, and the new one names it as its origin. Only what
    differs is given: KEY=VALUE and KEY:=JSON as in `enqueue`, or --args; arguments that are left out stay as they
    were, and so do secrets. The task checks the arguments.
    """
    if bool(pairs) == (args is not None):
        message = f"expected either KEY=VALUE or --args, got {'both' if pairs else 'neither'}"
        raise click.UsageError(message, ctx)
    write_clone(ctx, naming.one(ctx, job_id), Changes(tuple(pairs), args), actor, as_json=as_json)


def write_clone(ctx: click.Context, job: str, changes: Changes, actor: str | None, *, as_json: bool) -> None:
    """Clone a finished job with other arguments, and print its id."""
    app = None if locate.server(ctx) else locate.app_or_store(ctx)[0]

    async def change(session: Session) -> Job:
        old = await session.client.jobs.get(job)
        task = app.tasks.get(old.kind) if app is not None and old.kind in app.tasks else None
        schema = await arguments.schema_of(session.client.kinds, old.kind) if task is None else None
        return await session.client.jobs.clone(old.id, changes.read(old, task, schema), actor=actor)

    made = with_store(ctx, change)
    output.answer(made, made.id, as_json=as_json)
