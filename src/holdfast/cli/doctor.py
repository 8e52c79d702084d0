"""`holdfast doctor`."""

import asyncio
from collections.abc import AsyncIterator

import click

from holdfast.app import Holdfast
from holdfast.cli import connect, locate, options, output, shapes
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.errors import HoldfastError, SchemaError
from holdfast.health import checks
from holdfast.health import examining as health
from holdfast.health.checks import Check, Level
from holdfast.locations import masked
from holdfast.stores import make_store

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


@click.command("doctor", cls=Verb, examples=("", "--json"))
@options.as_json
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check the store, queues and workers.

    Each line says how it is and what to do. Warnings leave the exit code at 0; an error makes it 6. Nothing is changed.
    """
    app, knows_tasks = locate.app_or_store(ctx)

    async def run() -> list[Check]:
        return [check async for check in examine(app, knows_tasks=knows_tasks)]

    found = asyncio.run(run())
    is_healthy = all(check.level is not Level.ERROR for check in found)
    if as_json:
        rows = [shapes.CheckShape(check.name, check.level, _safe(check.message), check.advice) for check in found]
        output.write_json(shapes.HealthShape(is_healthy, masked(app.settings.url), rows))
    else:
        for check in found:
            _write(check)
    ctx.exit(Exit.OK if is_healthy else Exit.UNHEALTHY)


def _write(check: Check) -> None:
    advice = "" if check.advice is None else f"; {check.advice}"
    output.styled(
        (f"{check.level:<8}", _STYLES[check.level]),
        (f"{check.name:<8} ", "bold"),
        (f"{_safe(check.message)}{advice}", ""),
    )


def _safe(message: str) -> str:
    return output.one_line(output.without_passwords(message))


# ---- the examination -----------------------------------------------------------------------------------------------


async def examine(app: Holdfast, *, knows_tasks: bool) -> AsyncIterator[Check]:
    """Look at everything that can be looked at; what fails ends only what needs it."""
    settings = app.settings
    try:
        connect.require_kept(settings)
        connect.require_present(settings)
        plan = await make_store(settings).migrator.plan()
    except SchemaError as error:
        yield Check("schema", Level.ERROR, str(error))
        return
    except HoldfastError as error:
        yield Check("store", Level.ERROR, str(error), "check the URL, and that the database runs and is reachable")
        return
    yield Check("store", Level.OK, f"{masked(settings.url)} is reachable")
    yield checks.schema(plan)
    if (path := connect.file_of(settings)) is not None:
        for check in checks.file(path):
            yield check
    if plan.is_empty:  # opening a SQLite store would bring an old schema up to date, and a look changes nothing
        found: list[Check] = []
        with health.reported(found):
            async with connect.session(settings) as session:
                tasks = app.tasks if knows_tasks else None
                found += await health.examine(session.client, session.store, settings, tasks)
                found += await health.examine_tables(session.store)
        for check in found:
            yield check
