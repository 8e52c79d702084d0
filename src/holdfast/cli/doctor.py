"""`holdfast doctor`."""

import asyncio
from dataclasses import replace

import click

from holdfast.app import Holdfast
from holdfast.cli import connect, locate, options, output
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.errors import HoldfastError, SchemaError
from holdfast.health import examining as health
from holdfast.health.checks import check
from holdfast.resources.health import HealthCheck, HealthLevel, HealthReport
from holdfast.stores import make_store

_STYLES = {HealthLevel.OK: "green", HealthLevel.WARNING: "yellow", HealthLevel.ERROR: "red"}


@click.command("doctor", cls=Verb, examples=("", "--json"))
@options.as_json
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check the store, queues and workers.

    Each line says how it is and what to do. Warnings leave the exit code at 0; an error makes it 6. Nothing is changed.
    """
    app, knows_tasks = locate.app_or_store(ctx)

    report = asyncio.run(examine(app, knows_tasks=knows_tasks))
    report = replace(report, checks=[replace(finding, message=_safe(finding.message)) for finding in report.checks])
    if as_json:
        output.write_json(report)
    else:
        for finding in report.checks:
            _write(finding)
    ctx.exit(Exit.OK if report.healthy else Exit.UNHEALTHY)


def _write(finding: HealthCheck) -> None:
    advice = "" if finding.advice is None else f"; {finding.advice}"
    output.styled(
        (f"{finding.level:<8}", _STYLES[finding.level]),
        (f"{finding.name:<8} ", "bold"),
        (f"{_safe(finding.message)}{advice}", ""),
    )


def _safe(message: str) -> str:
    return output.one_line(output.without_passwords(message))


# ---- the examination -----------------------------------------------------------------------------------------------


async def examine(app: Holdfast, *, knows_tasks: bool) -> HealthReport:
    """Look at everything that can be looked at; what fails ends only what needs it."""
    settings = app.config
    try:
        connect.require_kept(settings)
        connect.require_present(settings)
        plan = await make_store(settings).migrator.plan()
    except SchemaError as error:
        return health.report(settings, [check("schema", HealthLevel.ERROR, str(error))])
    except HoldfastError as error:
        advice = "check the URL, and that the database runs and is reachable"
        return health.report(settings, [check("store", HealthLevel.ERROR, str(error), advice)])
    found = health.of_store(settings, plan)
    if plan.is_empty:  # opening a SQLite store would bring an old schema up to date, and a look changes nothing
        with health.reported(found):
            async with connect.session(app) as session:
                tasks = app.tasks if knows_tasks else None
                found += await health.examine(session.client, session.store, settings, tasks)
                found += await health.examine_tables(session.store)
    return health.report(settings, found)
