"""`holdfast demo`."""

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from holdfast.cli import demo_run, demo_view, output
from holdfast.cli.demo_run import Story
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb

_WIDTH = 22


@click.command("demo", cls=Verb, examples=("", "--exit", "--exit --keep"))
@click.option("--exit", "exits", is_flag=True, help="End by itself; elsewhere than on a terminal it always does.")
@click.option("--keep", is_flag=True, help="Keep the store, to look at its jobs afterwards.")
@click.pass_context
def demo(ctx: click.Context, *, exits: bool, keep: bool) -> None:
    """Watch jobs run, fail, and survive a kill -9.

    Some 300 jobs of all sorts are stored in a SQLite file in a temporary folder and run by `holdfast worker` with two
    processes; one of them is killed in the middle of its work. `holdfast serve` shows the dashboard, to which a link is
    printed. That takes about 20 seconds; on a terminal more jobs come then until Ctrl-C. The exit code is 0 only if
    every job finished as planned.
    """
    if sys.platform == "win32":
        message = "holdfast demo starts `holdfast worker`, which needs Linux or macOS"
        raise Refusal(message, Exit.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    url = f"sqlite:///{folder / 'jobs.db'}"
    is_kept = True
    try:
        story = _watch(url, folder, stays=not exits and output.is_terminal())
        _write(story)
        is_kept = keep or bool(story.problems)
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        is_kept = keep
        output.note("the demo was stopped")
        ctx.exit(Exit.INTERRUPTED if isinstance(error, KeyboardInterrupt) else 128 + signal.SIGTERM)
    finally:
        if is_kept:
            output.note(f"kept: holdfast jobs list --store {url}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if story.problems:
        message = f"the demo did not go as planned: {story.problems[0]}"
        raise Refusal(message, Exit.ERROR, kind="DemoFailed", detail="\n".join(story.problems[1:]) or None)


def _watch(url: str, folder: Path, *, stays: bool) -> Story:
    output.line(f"store: {url}")
    with demo_view.opened() as view:
        return asyncio.run(demo_run.Demo(url, folder, view, stays=stays).run())


def _write(story: Story) -> None:
    summary = story.summary
    ended = sum(summary.ended.values())
    output.line("")
    output.styled((f"{ended} of {story.stored} jobs finished in {story.elapsed_s:.1f} s", "bold"))
    for state, jobs in summary.ended.items():
        output.styled((f"  {state:<{_WIDTH}}", output.STATE_STYLES[state]), (f"{jobs:>5}", ""))
    for what, many, why in (
        ("retried", str(summary.retried), "took more than one attempt"),
        ("snoozed", str(summary.snoozed), "asked to be called again later"),
        ("rescued", str(summary.rescued), "ran in the process that was killed, and started again"),
        *story.beside,
    ):
        output.line(f"  {what:<{_WIDTH}}{many:>5}  {why}")
    if not story.problems:
        output.styled(("everything finished as planned", "green"))
