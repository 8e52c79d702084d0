"""`holdfast enqueue`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.app import Holdfast
from holdfast.cli import arguments, completing, locate, moments, options, output, waiting
from holdfast.cli.connect import require_kept, with_server
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.client.kinds import Kinds
from holdfast.client.protocol import Client
from holdfast.errors import ArgumentError
from holdfast.resources.enqueue import EnqueueRequest
from holdfast.resources.job import EnqueuedJob
from holdfast.tasks.call import Call

if TYPE_CHECKING:
    from holdfast.remote.client import RemoteClient

_Then = Callable[[Client, EnqueuedJob], Awaitable[None]]
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
@click.option("--wait", is_flag=True, help="Wait until it has finished, and print how; exit code 5 if it failed.")
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
    using = _using(given)
    if (named := locate.server(ctx)) is not None:

        async def ask(client: "RemoteClient", then: _Then) -> None:
            request = EnqueueRequest(kind=kind, args=await _args(client.kinds, kind, pairs, args), **using)
            await then(client, await client.jobs.enqueue(request))

        def run(then: _Then) -> None:
            with_server(named, lambda client: ask(client, then))
    else:
        app = locate.app_with_tasks(ctx)
        require_kept(app.config)
        task = app.tasks.get(kind)
        encoded = arguments.read_pairs(task, pairs) if args is None else arguments.read_args(args)
        call = task.call_json(encoded, **using)

        def run(then: _Then) -> None:
            asyncio.run(_store(app, call, then))

    ctx.exit(_finish(run, waiting.Watch((), timeout_s) if wait else None, as_json=as_json))


async def _store(app: Holdfast, call: Call[Any], then: _Then) -> None:
    async with app:
        handle = await app.enqueue(call)
        await then(app.client, (await handle.get()).enqueued(created=handle.created))


def _finish(run: Callable[[_Then], None], watch: waiting.Watch | None, *, as_json: bool) -> int:
    """Store the job, and wait for its end if there is a watch; the answer is the exit code.

    Its id is printed as soon as it is stored; JSON is one document at the end.
    """
    stored: list[EnqueuedJob] = []

    async def then(client: Client, job: EnqueuedJob) -> None:
        stored.append(job)
        if not as_json:
            output.line(job.id)
            if not job.created:
                output.note(f"existing: job {job.id} was there already, nothing was stored")
        if watch is not None:
            watch.ids.append(job.id)
            await waiting.until_ended(client, watch)

    with contextlib.nullcontext() if watch is None else waiting.interruptible(watch):
        run(then)
    code = int(Exit.OK) if watch is None else waiting.tell(watch, as_json=as_json, is_named=False)
    for job in stored if as_json else ():
        seen = None if watch is None else watch.seen.get(job.id)
        output.write_json(job if seen is None else seen.enqueued(created=job.created))
    return code


async def _args(kinds: Kinds, kind: str, pairs: Sequence[str], args: str | None) -> dict[str, Any]:
    """Read the arguments for a server, which knows the task: pairs by the JSON Schema that it has of them."""
    if args is None:
        encoded = arguments.read_pairs(None, pairs, await arguments.schema_of(kinds, kind))
    else:
        encoded = arguments.read_args(args)
    try:
        return msgspec.json.decode(encoded, type=dict[str, Any])
    except msgspec.DecodeError as error:
        message = f"--args: expected a JSON object: {error}"
        raise ArgumentError(message) from error


def _using(given: dict[str, Any]) -> dict[str, Any]:
    """Read the options that were given; they carry the names of UsingOptions."""
    using: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    if "run_at" in using:
        using["run_at"] = moments.due(using["run_at"], "--at")
    if "tags" in using:
        using["tags"] = moments.tags(using["tags"])
    if using.get("timeout") == "none":
        using["timeout"] = None
    return using
