"""`holdfast bench`."""

import asyncio
import signal
import sys
import tempfile
from pathlib import Path

import click

from holdfast.bench import folder
from holdfast.bench.audit import RunFailed
from holdfast.bench.place import place_on
from holdfast.bench.plan import Part, Plan, read_parts
from holdfast.bench.report import Report
from holdfast.cli import bench_page, bench_view, connect, locate, options, output
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb
from holdfast.config import Settings
from holdfast.worker_settings import MOST_CONCURRENT, MOST_PROCESSES

_WORKER = ("-m", "holdfast.cli.demo_worker")
_FEWEST_JOBS, _MOST_JOBS, _MOST_ROUNDS = 100, 1_000_000, 100
_USUAL = Plan()
_EXAMPLES = (
    "--store postgresql://app@db/app",
    "--store sqlite:///jobs.db --rounds 5",
    "-A mypackage.jobs:app --only drain,pickup --json",
)


@click.command("bench", cls=Verb, examples=_EXAMPLES)
@options.number(
    "--jobs",
    _USUAL.jobs,
    "Jobs in bulk and for each drain; the others scale with it.",
    least=_FEWEST_JOBS,
    most=_MOST_JOBS,
)
@options.number(
    "--rounds", _USUAL.rounds, "Measure everything so often; medians and ranges are shown.", most=_MOST_ROUNDS
)
@options.number(
    "--concurrency", _USUAL.concurrency, "Jobs at once, in all, of the workers that are measured.", most=MOST_CONCURRENT
)
@options.number(
    "--processes", _USUAL.processes, "Processes of the second drain; with 1 there is none.", most=MOST_PROCESSES
)
@click.option("--only", metavar="PART,...", help=f"Measure these parts only: {', '.join(Part)}. [default: all]")
@options.as_json
@click.pass_context
def bench(
    ctx: click.Context, *, jobs: int, rounds: int, concurrency: int, processes: int, only: str | None, as_json: bool
) -> None:
    """Measure Holdfast on your database and machine.

    It works in a place of its own, which it removes at the end, also after an error or Ctrl-C: on PostgreSQL in a new
    schema of the same database, on SQLite in a new folder beside the file. Your jobs are not touched, but what else
    runs there shares the disk and the processors, both ways. Every round checks that each job ran exactly once.
    """
    if sys.platform == "win32":
        message = "holdfast bench starts `holdfast worker`, which needs Linux or macOS"
        raise Refusal(message, Exit.ERROR)
    app, _ = locate.app_or_store(ctx)
    connect.require_kept(app.config)
    parts = _USUAL.parts if only is None else read_parts(only)
    plan = Plan(jobs, rounds, concurrency, processes, parts)
    run = _Run(plan, app.config)
    try:
        report = asyncio.run(run.measured())
    except RunFailed as failed:
        what, *more = failed.problems
        message = f"this run is not valid: {what}"
        raise Refusal(message, Exit.ERROR, kind="RunFailed", detail="\n".join(more) or None) from failed
    if report is None:
        ctx.exit(run.exit_code)
    (bench_page.write_json if as_json else bench_page.write)(report, plan, app.config)
    if run.left:
        message = "not everything that the bench had made could be removed; see above"
        raise Refusal(message, Exit.ERROR, kind="NotRemoved")


class _Run:
    """One run: measured until it is told to stop, and always cleaned up."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self.left: list[str] = []
        self.exit_code = int(Exit.OK)
        self._plan = plan
        self._settings = settings
        self._measuring: asyncio.Task[Report] | None = None

    async def measured(self) -> Report | None:
        """Measure, and remove everything that was made for it; None when a signal came in between."""
        from holdfast.bench.course import Course  # noqa: PLC0415 - its app reads the environment, for a worker

        place = place_on(self._settings)
        working = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does for what is to go on
                loop.add_signal_handler(number, self._stop, number)
        try:
            with bench_view.opened(self._plan) as view:
                course = Course(self._plan, place, working, _WORKER, view.show)
                self._measuring = asyncio.create_task(course.run())
                await asyncio.wait([self._measuring])
        finally:
            self.left = [*await place.remove(), *await folder.remove(working)]
            for what in self.left:
                output.note(f"could not be removed: {output.without_passwords(what)}")
        if self.exit_code:
            await asyncio.gather(self._measuring, return_exceptions=True)  # whatever it was in the middle of
            return None
        return await self._measuring

    def _stop(self, number: signal.Signals) -> None:
        """Stop measuring, once; what follows is short and must not be cut off."""
        if self._measuring is not None and not self._measuring.done() and not self.exit_code:
            self.exit_code = 128 + number
            self._measuring.cancel()
            output.note("stopping: what the bench has made is removed first")
