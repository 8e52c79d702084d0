"""`holdfast enqueue`."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.cli import arguments, completing, locate, moments, options, output, remote_enqueue, waiting
from holdfast.cli.connect import require_kept
from holdfast.cli.grammar import Verb
from holdfast.cli.remote_enqueue import Request
from holdfast.cli.waiting import Watch
from holdfast.resources.job import EnqueuedJob
from holdfast.tasks.call import Call
from holdfast.tasks.options import UsingOptions
from holdfast.tasks.task import Task

_EXAMPLES = (
    "send_email to=a@example.org subject=hello",
    "resize path=a.png width=300 sizes:='[100, 200]'",
    "send_email --args @email.json --delay 5m",
    "send_email to=a@example.org --unique welcome:a --tag customer=17",
    "resize path=a.png width=300 --wait --wait-timeout 30s",
)


@click.command("enqueue", cls=Verb, examples=_EXAMPLES)
@click.argument("kind", shell_complete=completing.kinds)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", metavar="JSON|-|@FILE", help="All arguments as one JSON object: itself, from stdin, a file.")
@click.option("--delay", metavar="DURATION", help="Run it so much later: 30s, 5m, 1h 30m.")
@click.option("--at", "run_at", metavar="TIME", help="Run it at a time with an offset: 2026-11-15T09:00:00Z.")
@click.option("--priority", type=int, metavar="0-10", help="0 goes first, 10 last. [default: the queue's]")
@click.option("--unique", metavar="KEY", help="At most one live job of this kind has the key.")
@click.option("--unique-for", metavar="DURATION", help="With --unique: hold the key at least so long.")
@click.option("--key", metavar="KEY", help="Idempotency key: the same request sent again finds its job for 24 hours.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag; may be given several times.")
@click.option("--max-attempts", type=int, metavar="N", help="Attempts before the job has failed.")
@click.option("--timeout", metavar="DURATION", help='How long an attempt may run; "none" sets no limit.')
@click.option("--wait", is_flag=True, help="Wait until it has ended, and print how; exit code 5 if it failed.")
@click.option("--wait-timeout", metavar="DURATION", help="With --wait: wait so long at most; the job goes on.")
@options.actor
@options.as_json
@click.pass_context
def enqueue(
    ctx: click.Context,
    /,
    *,
    kind: str,
    pairs: Sequence[str],
    args: str | None,
    wait: bool,
    wait_timeout: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Store one job and print its id.

    KEY=VALUE stays text where the task takes that text and is read as JSON where it does not; KEY:=VALUE is always
    JSON. A job that is there already (--unique, --key) is printed too, with a note on stderr. With --wait its end is
    waited for, as `jobs wait` does.
    """
    if args is not None and pairs:
        message = f"--args and KEY=VALUE exclude each other; got --args and {pairs[0]!r}"
        raise click.UsageError(message, ctx)
    if wait_timeout is not None and not wait:
        message = "--wait-timeout goes with --wait; --timeout bounds an attempt of the job"
        raise click.UsageError(message, ctx)
    timeout_s = waiting.read_timeout(wait_timeout, "--wait-timeout")
    if (named := locate.server(ctx)) is not None:
        request = Request(kind, pairs, args, given, Watch((), timeout_s) if wait else None)
        ctx.exit(remote_enqueue.run(named, request, as_json=as_json))
    app = locate.app_with_tasks(ctx)
    require_kept(app.config)
    task = app.tasks.get(kind)
    encoded = arguments.read_pairs(task, pairs) if args is None else arguments.read_args(args)
    call = _call(task, encoded, given)
    if wait:
        ctx.exit(_enqueue_and_wait(app, call, Watch((), timeout_s), as_json=as_json))
    job = asyncio.run(_enqueue(app, call))
    if as_json:
        output.write_json(job)
    else:
        remote_enqueue.write(job)


async def _enqueue(app: Holdfast, call: Call[Any]) -> EnqueuedJob:
    async with app:
        handle = await app.enqueue(call)
        return (await handle.get()).enqueued(created=handle.created)


def _enqueue_and_wait(app: Holdfast, call: Call[Any], watch: Watch, *, as_json: bool) -> int:
    """Store the job and wait for its end; its id is printed before that, JSON is one document after it."""
    stored: list[EnqueuedJob] = []

    async def run() -> None:
        async with app:
            handle = await app.enqueue(call)
            job = (await handle.get()).enqueued(created=handle.created)
            stored.append(job)
            watch.ids.append(job.id)
            if not as_json:
                remote_enqueue.write(job)
            await waiting.until_ended(app.client, watch)

    with waiting.interruptible(watch):
        asyncio.run(run())
    code = waiting.tell(watch, as_json=as_json, is_named=False)
    if as_json:
        for job in stored:
            output.write_json(watch.seen.get(job.id, job).enqueued(created=job.created))
    return code


def _call(task: Task[..., Any], encoded: str, given: dict[str, Any]) -> Call[Any]:
    """Give the task what was given, and nothing for what was not."""
    using: UsingOptions = {}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    if "run_at" in chosen:
        chosen["run_at"] = moments.due(chosen["run_at"], "--at")
    if "tags" in chosen:
        chosen["tags"] = moments.tags(chosen["tags"])
    if chosen.get("timeout") == "none":
        chosen["timeout"] = None
    using.update(chosen)  # type: ignore[typeddict-item] # the options carry the names of UsingOptions
    return task.call_json(encoded, **using)
