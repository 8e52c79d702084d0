"""`holdfast services run`: the verb of the noun `services` that runs them."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator

import click

from holdfast.app import Holdfast
from holdfast.cli import locate, options
from holdfast.cli.connect import require_kept, require_present
from holdfast.cli.services import services
from holdfast.locations import masked
from holdfast.services.exporter import Exporter
from holdfast.services.leader import make_leadership
from holdfast.services.runner import ServiceRunner
from holdfast.services.secrecy import keep_secrets
from holdfast.telemetry import endpoint, logs
from holdfast.telemetry.exposition import require_metrics
from holdfast.worker.errands import Errands

_FAREWELL_S = 5.0


__all__ = ["services"]


@services.command("run", examples=("", "--log-level debug"))
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus here; it asks for no token.")
@options.log_level
@options.log_format
@click.pass_context
def run(ctx: click.Context, *, metrics: str | None, log_level: str, log_format: str) -> None:
    """Run all services until it is stopped, without a worker.

    They queue scheduled jobs that are due, fire schedules, requeue jobs of dead workers, delete what has expired, add
    up counts and post webhooks. Any number of processes may run: one leads, the others stand by and take over within
    eleven seconds. Every worker does the same beside its jobs.
    """
    app = locate.app_with_tasks(ctx)
    require_kept(app.config)
    require_present(app.config)
    if metrics is not None:
        endpoint.read_address(metrics)
        require_metrics()
    logs.set_up(log_level.upper(), log_format)
    keep_secrets(app.config)
    asyncio.run(_serve(app, metrics))


async def _serve(app: Holdfast, metrics: str | None) -> None:
    log = logging.getLogger("holdfast")
    async with app, _stopping() as stop:
        settings, store, delivery = app.config, app.store, app.client.delivery
        runner = ServiceRunner(store, delivery, settings, make_leadership(settings, store))
        log.info("services of %s as %s", masked(settings.url), runner.leadership.holder)
        errands = Errands(app.parts, store, delivery)
        exporter = Exporter()
        shown = contextlib.nullcontext() if metrics is None else endpoint.serving(metrics, exporter.text)
        try:
            with exporter.showing(tuple, store, runner):
                async with shown, runner.open():
                    await stop.wait()
        finally:
            await errands.close(_FAREWELL_S)
        for report in runner.reports():
            log.info(
                "%s: %d rounds, %d scanned, %d moved, %d failures, at most %d ms late",
                report.name,
                report.runs,
                report.scanned,
                report.moved,
                report.failures,
                report.lag_ms,
            )


@contextlib.asynccontextmanager
async def _stopping() -> AsyncIterator[asyncio.Event]:
    """Wait for a signal to shut down; the second one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def leave() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C raises
            loop.add_signal_handler(number, leave)
    yield stop
