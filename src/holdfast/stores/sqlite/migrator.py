"""Migrations on SQLite: each in a transaction of its own, under the turnstile and SQLite's write lock."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.errors import ConfigError
from holdfast.stores.migrate import Applied, Migration, Plan, load_migrations, make_plan
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection

MIGRATIONS = load_migrations("holdfast.stores.sqlite")


class SqliteMigrator:
    """Brings a database to what this release expects; uses a connection that is open, or opens it for the while."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def plan(self, *, seed_views: bool = False) -> Plan:
        _refuse(seed_views=seed_views)
        async with self._opened() as connection:
            return await connection.read(lambda database, _: read_plan(database))

    async def up(self, *, seed_views: bool = False) -> Plan:
        _refuse(seed_views=seed_views)
        async with self._opened() as connection:
            plan = await connection.read(lambda database, _: read_plan(database))
            # Whoever comes second waits for the first and finds that a step less is missing.
            while not (await connection.write(_apply_next)).is_empty:
                pass
            return plan

    def sql(self, plan: Plan) -> str:
        """Print the statements of a plan, to be applied by other means."""
        steps: list[str] = []
        for step in plan.migrations:
            steps += ["BEGIN IMMEDIATE;", f"-- migration {step.version:04d}_{step.name}", step.sql.rstrip()]
            steps += [
                *(_spelled_out(statement, step) for statement in statements.QUERIES["record_migration"]),
                "COMMIT;",
            ]
        return "\n".join(steps) + "\n" if steps else ""

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Connection]:
        if self._connection.is_open:
            yield self._connection
            return
        await self._connection.open()
        try:
            yield self._connection
        finally:
            await self._connection.close()


def _refuse(*, seed_views: bool) -> None:
    if seed_views:
        message = (
            "seed views: expected a store on PostgreSQL, got SQLite, which has no schemas; read holdfast_live_jobs "
        )
        message += "and holdfast_finished_jobs there"
        raise ConfigError(message)


def read_plan(database: sqlite3.Connection) -> Plan:
    """Compare a database with this release."""
    if not statements.fetch_value(database, "has_schema"):
        return make_plan((), MIGRATIONS)
    found = statements.fetch(database, "applied_migrations")
    return make_plan(
        tuple(Applied(version, name, checksum, rows.moment(at)) for version, name, checksum, at in found), MIGRATIONS
    )


def _apply_next(database: sqlite3.Connection, now: int) -> Plan:
    """Apply the first step that is missing; the plan says what was missing before."""
    plan = read_plan(database)
    for step in plan.migrations[:1]:
        for statement in statements.split(step.sql):
            database.execute(statement)
        statements.change(
            database, "record_migration", version=step.version, name=step.name, checksum=step.checksum, now=now
        )
    return plan


def _spelled_out(statement: str, step: Migration) -> str:
    now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    values = {":version": str(step.version), ":name": f"'{step.name}'", ":checksum": f"'{step.checksum}'", ":now": now}
    for parameter, value in values.items():
        statement = statement.replace(parameter, value)
    return statement
