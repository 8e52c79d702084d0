"""`holdfast worker`."""

import asyncio
import contextlib
import logging
import os
import re
import sys
from typing import NoReturn

import click

from holdfast import names
from holdfast.cli import locate, options
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb
from holdfast.errors import InvalidValue
from holdfast.telemetry import logs
from holdfast.telemetry.endpoint import read_address
from holdfast.telemetry.exposition import require_metrics
from holdfast.worker.leaving import Until
from holdfast.worker.orders import Start
from holdfast.worker_settings import MOST_CONCURRENT, MOST_PROCESSES

_CHILD = ("-m", "holdfast.cli.worker_child")
_SIZE = re.compile(r"(\d+)\s*(k|m|g)?b", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_EXAMPLES = (
    "-A mypackage.jobs:app",
    "-A mypackage.jobs:app --queues high,default --processes 2",
    "-A mypackage.jobs:app --drain",
    "-A mypackage.jobs:app --recycle-after 512MB",
    "-A mypackage.jobs:app --metrics 0.0.0.0:9464 --log-format json",
)


def _count(most: int) -> click.IntRange:
    return click.IntRange(1, most)


@click.command("worker", cls=Verb, examples=_EXAMPLES)
@click.option("--queues", metavar="NAME,...", help="Work these queues only. [default: all that the app knows]")
@click.option(
    "--concurrency", type=_count(MOST_CONCURRENT), metavar="N", help="Jobs at once, in all. [default: the app's, 10]"
)
@click.option(
    "--processes", type=_count(MOST_PROCESSES), metavar="N", help="Processes to deal them to. [default: the app's, 1]"
)
@click.option("--once", is_flag=True, help="Run one job, if there is one, and leave.")
@click.option("--drain", is_flag=True, help="Run what may run now, and leave when nothing is left.")
@click.option(
    "--recycle-after", metavar="JOBS|SIZE", help="Renew a process after so many jobs, or above a size: 512MB."
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus here; it asks for no token.")
@options.log_level
@options.log_format
@click.pass_context
def worker(
    ctx: click.Context,
    *,
    queues: str | None,
    concurrency: int | None,
    processes: int | None,
    once: bool,
    drain: bool,
    recycle_after: str | None,
    metrics: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run jobs, until a signal asks to leave.

    The first SIGTERM or Ctrl-C lets running jobs finish, within the app's shutdown grace; a second one requeues them at
    once, and they keep their position. Exit code 0: all of them finished; 124: the grace ended; 128 + signal: asked
    twice.
    """
    if sys.platform == "win32":
        message = "holdfast worker needs Linux or macOS; on Windows run `await app.run_worker()` inside an app"
        raise Refusal(message, Exit.ERROR)
    from holdfast.worker.supervisor import Supervisor  # noqa: PLC0415 - it needs what only POSIX systems have

    until = _chosen_end(ctx, once=once, drain=drain)
    named = locate.spelled_app(ctx)
    jobs, size = _recycling(recycle_after)
    if metrics is not None:
        read_address(metrics)
        require_metrics()
    start = Start(
        app=named.app,
        source=named.source,
        folder=named.folder,
        queues=_chosen_queues(queues),
        concurrency=concurrency,
        processes=1 if once else processes,
        until=until,
        recycle_jobs=jobs,
        recycle_bytes=size,
        log_level=log_level.upper(),
        log_format=log_format,
        is_metered=metrics is not None,
    )
    logs.set_up(start.log_level, start.log_format)

    async def run() -> int:
        return await Supervisor(start, _CHILD, metrics=metrics).run()

    code = asyncio.run(run())
    target = ctx.find_object(locate.Target)
    if target is not None and target.owns_process:
        _end_process(code)
    ctx.exit(code)


def _end_process(code: int) -> NoReturn:
    """End at once: taking the interpreter down module by module costs seconds of the grace on a busy machine."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # its reader is gone, or it is closed
            stream.flush()
    os._exit(code)


def _chosen_end(ctx: click.Context, *, once: bool, drain: bool) -> Until:
    """Read when to leave without a signal."""
    if once and drain:
        message = "--once and --drain exclude each other; give one of them"
        raise click.UsageError(message, ctx)
    return Until.ONE if once else Until.EMPTY if drain else Until.TOLD


def _chosen_queues(given: str | None) -> list[str] | None:
    """Read which queues to work; each name is checked before a process is started."""
    return None if given is None else [names.name(name.strip(), "--queues") for name in given.split(",")]


def _recycling(given: str | None) -> tuple[int | None, int | None]:
    """Read when a process is to be renewed: after a number of jobs, or above a size."""
    if given is None:
        return None, None
    if given.isdecimal() and int(given) > 0:
        return int(given), None
    found = _SIZE.fullmatch(given.strip())
    if found is None or int(found[1]) == 0:
        message = f"--recycle-after: expected a number of jobs like 10000 or a size like 512MB, got {given!r}"
        raise InvalidValue(message)
    return None, int(found[1]) * _UNITS[(found[2] or "").lower()]
