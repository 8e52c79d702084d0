"""`holdfast migrate up|status|plan|sql|grants`."""

import asyncio
from datetime import datetime
from typing import get_args

import click

from holdfast import ages
from holdfast.cli import locate, options, output, shapes
from holdfast.cli.connect import is_absent, require_kept
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.config import Settings
from holdfast.errors import ConfigError
from holdfast.locations import masked
from holdfast.stores import make_store
from holdfast.stores.migrate import Plan, Purpose, make_plan

_SEED_VIEWS = click.option(
    "--seed-views", is_flag=True, help="With views in the schema holdfast_seed; they are kept up to date from then on."
)
_COLUMNS = (Column("VERSION"), Column("NAME"), Column("STATE"), Column("APPLIED"))


@click.group("migrate", cls=Noun, examples=("status", "plan", "up", "sql > upgrade.sql"))
def migrate() -> None:
    """Bring the store's schema to what this release needs."""


@migrate.command("up", examples=("", "--store postgresql://app@db/app", "--seed-views"))
@_SEED_VIEWS
@options.as_json
@click.pass_context
def up(ctx: click.Context, *, seed_views: bool, as_json: bool) -> None:
    """Apply what is missing.

    Under a lock, so that several may run it at once. On PostgreSQL there are views for those who have queries for a
    table queue_job, tasks, delayed_jobs or delayed_jobs_dlq.
    """
    settings = _settings(ctx)
    done = asyncio.run(make_store(settings).migrator.up(seed_views=seed_views))
    if as_json:
        now = asyncio.run(make_store(settings).migrator.plan())
        output.write_json(shapes.schema(masked(settings.url), now))
        return
    for step in _steps(done):
        output.line(f"applied {step}")
    output.line(f"the schema is current: version {_latest(done)}")


@migrate.command("status", examples=("", "--json"))
@options.as_json
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> None:
    """List what was applied and what is missing."""
    settings = _settings(ctx)
    plan = read_plan(settings)
    if as_json:
        output.write_json(shapes.schema(masked(settings.url), plan))
        return
    now = ages.now()
    rows = [
        [Cell(f"{step.version:04d}"), Cell(step.name), Cell("applied", style="green"), _applied(step.applied_at, now)]
        for step in plan.applied
    ]
    rows += [
        [Cell(f"{step.version:04d}"), Cell(step.name), Cell("pending", style="yellow"), Cell("")]
        for step in plan.migrations
    ]
    rows += [
        [Cell("-"), Cell(f"function {function.name}"), Cell("pending", style="yellow"), Cell("")]
        for function in plan.functions
    ]
    output.table(_COLUMNS, rows)
    if not plan.is_empty:
        output.note("the schema is not current: run `migrate up`")


@migrate.command("plan", examples=("", "--json"))
@_SEED_VIEWS
@options.as_json
@click.pass_context
def show_plan(ctx: click.Context, *, seed_views: bool, as_json: bool) -> None:
    """Show what `up` would do; nothing is changed."""
    settings = _settings(ctx)
    plan = read_plan(settings, seed_views=seed_views)
    if as_json:
        output.write_json(shapes.schema(masked(settings.url), plan))
        return
    for step in _steps(plan):
        output.line(f"would apply {step}")
    if plan.is_empty:
        output.line(f"nothing to do: version {_latest(plan)} is what this release needs")


@migrate.command("sql", examples=("> upgrade.sql", "--seed-views > views.sql"))
@_SEED_VIEWS
@click.pass_context
def sql(ctx: click.Context, *, seed_views: bool) -> None:
    """Print the SQL of what is missing.

    To be applied by other means; all of it for an empty database.
    """
    settings = _settings(ctx)
    plan = read_plan(settings, seed_views=seed_views)
    if plan.is_empty:
        output.note(f"nothing is missing: version {_latest(plan)} is what this release needs")
        return
    click.echo(make_store(settings).migrator.sql(plan), nl=False)


@migrate.command("grants", examples=("shop_app", "shop_app --apply", "shop_web --purpose enqueue --apply"))
@click.argument("role")
@click.option(
    "--purpose", type=click.Choice(get_args(Purpose)), default="serve", show_default=True, help="What the role is for."
)
@click.option("--apply", is_flag=True, help="Run the statements instead of only printing them.")
@click.pass_context
def show_grants(ctx: click.Context, role: str, *, purpose: Purpose, apply: bool) -> None:
    """Print the rights that a role needs.

    With `--purpose serve` it may do everything that Holdfast does, `work` leaves out tokens and the audit, `enqueue`
    allows `enqueue_v1` alone. Run this as the schema's owner, on PostgreSQL only.
    """
    migrator = make_store(_settings(ctx)).migrator
    from holdfast.stores.sqlite.migrator import SqliteMigrator  # noqa: PLC0415 - imports a driver, so only when needed

    if isinstance(migrator, SqliteMigrator):
        message = "expected a PostgreSQL store: a user who may write a SQLite file and its folder has all rights on it"
        raise ConfigError(message)
    for statement in asyncio.run(migrator.grants(role, purpose=purpose, apply=apply)):
        output.line(f"{statement};")
    if apply:
        output.note(f"{role} has these rights now")


def read_plan(settings: Settings, *, seed_views: bool = False) -> Plan:
    """Compare the store with this release; a SQLite file that does not exist is not made by looking at it."""
    if seed_views or not is_absent(settings):
        return asyncio.run(make_store(settings).migrator.plan(seed_views=seed_views))
    from holdfast.stores.sqlite.migrator import MIGRATIONS  # noqa: PLC0415 - imports a driver, so only when needed

    return make_plan((), MIGRATIONS)


def _settings(ctx: click.Context) -> Settings:
    app, _ = locate.app_or_store(ctx)
    require_kept(app.config)
    return app.config


def _steps(plan: Plan) -> list[str]:
    steps = [f"{step.version:04d}_{step.name}" for step in plan.migrations]
    return steps + [f"function {function.name}" for function in plan.functions]


def _latest(plan: Plan) -> int:
    return len(plan.applied) + len(plan.migrations)


def _applied(moment: datetime, now: datetime) -> Cell:
    return Cell(f"{ages.stamp(moment)} ({ages.age(moment, now)})", ages.iso(moment))
