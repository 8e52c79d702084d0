"""`holdfast dev`."""

import asyncio
import os
import sys
from pathlib import Path

import click

from holdfast.cli import locate, options, output
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb
from holdfast.server import require_server

_EXAMPLES = ("-A mypackage.jobs:app", "-A mypackage.jobs:app --reload", "-A mypackage.jobs:app --port 9000")


@click.command("dev", cls=Verb, examples=_EXAMPLES)
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Listen on this port. [default: 8470]")
@click.option("--reload", "reloads", is_flag=True, help="Restart both when a file below this folder changes.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Jobs at once. [default: the app's, 10]")
@options.log_level
@click.pass_context
def dev(
    ctx: click.Context, *, host: str | None, port: int | None, reloads: bool, concurrency: int | None, log_level: str
) -> None:
    """Run a server and a worker side by side, while you write tasks.

    It prints a link that lets you in. With --reload both restart when a file changes: running jobs have two
    seconds to finish, and are requeued then. Ctrl-C stops both. For production run `serve` and `worker` apart.
    """
    if sys.platform == "win32":
        message = "holdfast dev needs Linux or macOS; on Windows run `holdfast serve` beside an app with"
        message += " `await app.run_worker()`"
        raise Refusal(message, Exit.ERROR)
    require_server()
    from holdfast.server.development import Child, Development  # noqa: PLC0415 - only this command needs it

    named = locate.spelled_app(ctx)
    # A child that this process leaves behind ends with it.
    begin = (sys.executable, "-m", "holdfast.cli.demo_worker", str(os.getpid()))
    # An app that a file names is found by the children as it was here.
    common = (*(() if named.folder is not None else ("-A", named.app)), "--log-level", log_level)
    listening = [*(() if host is None else ("--host", host)), *(() if port is None else ("--port", str(port)))]
    working = [] if concurrency is None else ["--concurrency", str(concurrency)]
    server = Child("server", (*begin, "serve", *common, *listening), ("--link",))
    worker = Child("worker", (*begin, "worker", *common, *working))
    watched = sorted({Path.cwd(), Path(named.folder or ".").resolve()}) if reloads else None

    async def run() -> int:
        return await Development((server, worker), watched, output.note).run()

    ctx.exit(asyncio.run(run()))
