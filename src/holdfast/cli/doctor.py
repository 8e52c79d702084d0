"""`holdfast doctor`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import click

from holdfast.app import Holdfast
from holdfast.cli import ages, checks, connect, locate, options, output, shapes
from holdfast.cli.checks import Check, Level
from holdfast.cli.connect import Session
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.client.definitions import fingerprint
from holdfast.errors import HoldfastError, SchemaError
from holdfast.job import WAITING
from holdfast.locations import masked
from holdfast.stores import make_store
from holdfast.stores.values import JobFilter

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}
_LOOKED_AT = 1_000


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
        with _reported(found):
            async with connect.session(settings) as session:
                await _examine_open(session, app if knows_tasks else None, found)
        for check in found:
            yield check


async def _examine_open(session: Session, app: Holdfast | None, found: list[Check]) -> None:
    before = ages.now()
    told = await session.store.diagnose()
    now = told.now
    found += [checks.software(told), checks.clock(told, before, ages.now())]
    listens_past = session.settings.listen_dsn is not None
    found += filter(None, (checks.pooler(told, listens_past=listens_past), checks.history(told)))
    found += checks.vacuum(told)
    with _reported(found):
        queues, counts = await session.client.queues(), await session.client.counts()
        rows = await session.store.list_workers()
        found += [*checks.paused(queues, now), *checks.workers(rows, now)]
        found += checks.unattended(counts, queues, rows, now)
        found += checks.differing(await session.store.worker_policies(), await _published(session), rows)
    with _reported(found):
        found += checks.tables(await session.store.measure_tables(), now)
    if app is not None:
        with _reported(found):
            waiting = JobFilter(states=tuple(sorted(WAITING)))
            page = await session.client.list(waiting, limit=_LOOKED_AT)
            found.append(checks.kinds(page.jobs, app.tasks))


async def _published(session: Session) -> dict[str, str]:
    """Read fingerprints of what programs have published, by path."""
    marks = {row.path: fingerprint(row.definition) for row in await session.store.list_policies() if row.path}
    return marks | {f"kinds.{kind.name}": fingerprint(kind.definition) for kind in await session.store.list_kinds()}


@contextmanager
def _reported(found: list[Check]) -> Iterator[None]:
    """Turn an error of a check into a finding."""
    try:
        yield
    except HoldfastError as error:
        found.append(Check("store", Level.ERROR, str(error), "see the database's own log"))
