"""`holdfast top`."""

import asyncio
import sys
from typing import Any

import click
from rich.live import Live

from holdfast.cli import keys, options, output, top_view
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb
from holdfast.cli.top_view import Drawing, Seen
from holdfast.duration import milliseconds
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.job import JobState
from holdfast.stores.values import JobFilter

_RUNNING, _FAILURES = 30, 30
_LEAST_S = 0.2


@click.command("top", cls=Verb, examples=("", "--every 5s", "--once", "--json"))
@click.option("--every", metavar="DURATION", default="2s", show_default=True, help="How often to look.")
@click.option("--once", is_flag=True, help="Print it once and leave.")
@options.as_json
@click.pass_context
def top(ctx: click.Context, *, every: str, once: bool, as_json: bool) -> None:
    """Watch queues, running jobs and failures live.

    Keys: p pauses, r looks at once, f shows the failures alone, q leaves. A pipe gets it once, and so does --json as
    one object.
    """
    every_s = max(milliseconds(every, "--every") / 1_000, _LEAST_S)
    console = output.live_console(sys.stdout)
    if once or as_json or console is None:
        seen = with_store(ctx, look)
        if as_json:
            output.write_json(top_view.shape(seen))
        else:
            top_view.write(seen)
        return
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            with_store(ctx, lambda session: _watch(session, live, every_s))
    except KeyboardInterrupt:
        ctx.exit(Exit.INTERRUPTED)


async def look(session: Session) -> Seen:
    """Look at everything once."""
    client = session.client
    page = await client.jobs.list(JobFilter(states=(JobState.RUNNING,)), limit=_RUNNING)
    running = await client.jobs.get_many([job.id for job in page.jobs])
    return Seen(
        at=await session.client.now(),
        queues=await client.queues.list(),
        running=[job for job in running.values() if job.state is JobState.RUNNING],
        failures=(await client.dead_letters.list(limit=_FAILURES)).groups,
        workers=await client.workers.list(),
    )


async def _watch(session: Session, live: Live, every_s: float) -> None:
    """Draw until a person leaves; a store that is away for a while is waited for."""
    drawing = Drawing()
    with keys.pressed() as typed:
        while True:
            if not drawing.is_paused:
                await _look_again(session, drawing)
            live.update(drawing.draw(live.console.height), refresh=True)
            try:
                async with asyncio.timeout(every_s):
                    key = await typed.get()
            except TimeoutError:
                continue
            if key == "q":
                return
            drawing.obey(key)
            if key == "r":
                await _look_again(session, drawing)


async def _look_again(session: Session, drawing: Drawing) -> None:
    try:
        drawing.take(await look(session))
    except (StoreUnavailable, OutcomeUnknown) as error:
        if drawing.seen is None:
            raise _away(error) from error
        drawing.problem = output.without_passwords(str(error))


def _away(error: Any) -> Refusal:
    return Refusal(str(error), Exit.ERROR, kind=type(error).__name__)
