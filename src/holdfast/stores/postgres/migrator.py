"""Migrations on PostgreSQL: all in one transaction, under one lock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg
import msgspec

from holdfast.errors import ConfigError, OutcomeUnknown, StoreUnavailable
from holdfast.locations import masked
from holdfast.release import RELEASE
from holdfast.stores.migrate import (
    Applied,
    AppliedFunction,
    Function,
    Migration,
    Plan,
    Purpose,
    load_functions,
    load_migrations,
    make_plan,
)
from holdfast.stores.postgres.connection import Connection, reason_of, refused
from holdfast.stores.postgres.grants import grants
from holdfast.stores.postgres.links import Links
from holdfast.stores.postgres.role import QUERIES
from holdfast.stores.postgres.seed_views import outdated, spelled
from holdfast.stores.sql import in_schema, quoted

MIGRATIONS = load_migrations("holdfast.stores.postgres")
FUNCTIONS = load_functions("holdfast.stores.postgres")
OLDEST_SERVER = 140000

_LEDGER = """
CREATE TABLE IF NOT EXISTS holdfast.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS holdfast.schema_functions (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    release text NOT NULL
);
"""


class PostgresMigrator:
    """Brings a schema to what this release expects."""

    def __init__(self, dsn: str, schema: str, deadline: float) -> None:
        self._dsn = dsn
        self._schema = schema
        self._deadline = deadline

    async def plan(self, *, seed_views: bool = False) -> Plan:
        async with self._connection() as connection:
            return await self._read_plan(connection, seed_views=seed_views)

    async def up(self, *, seed_views: bool = False) -> Plan:
        # The lock is held by the transaction, not the session, so that it works through a pooler too. Whoever comes
        # second waits and finds nothing left to do.
        async with self._connection() as connection, connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrate ' || $1, 0))", self._schema
            )
            plan = await self._read_plan(connection, seed_views=seed_views)
            if not plan.is_empty:
                await self._apply(connection, plan)
            await connection.fetchval(in_schema(QUERIES["keep_partitions"], self._schema))
            return plan

    async def grants(self, role: str, *, purpose: Purpose = "serve", apply: bool = False) -> Sequence[str]:
        """Tell, or give, the rights that a role needs which is not the owner."""
        async with self._connection() as connection, connection.transaction():
            if not await connection.fetchval(QUERIES["has_role"], role):
                message = f"{masked(self._dsn)} has no role {role!r}; make it first: CREATE ROLE {quoted(role)} LOGIN"
                raise ConfigError(message)
            owner = await connection.fetchval(in_schema(QUERIES["owner"], self._schema))
            statements = grants(self._schema, owner, role, purpose)
            for statement in statements if apply else ():
                await connection.execute(statement)
            return statements

    def sql(self, plan: Plan) -> str:
        """Print the statements of a plan, to be applied by other means."""
        steps = ["BEGIN;", self._foundation()]
        for step in plan.migrations:
            steps += [f"-- migration {step.version:04d}_{step.name}", in_schema(step.sql, self._schema)]
            steps.append(self._record("schema_migrations (version, name, checksum)", _values(step)))
        for function in plan.functions:
            steps += [f"-- function {function.name}", spelled(function.sql, self._schema)]
            steps.append(
                self._record("schema_functions (name, checksum, release)", _values(function)).replace(
                    ";", " ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, release = excluded.release;"
                )
            )
        steps += [f"{in_schema(QUERIES['keep_partitions'], self._schema)};", "COMMIT;"]
        return "\n".join(steps) + "\n"

    async def _read_plan(self, connection: Connection, *, seed_views: bool) -> Plan:
        """Compare the schema with this release, and the views beside it, which no program needs to open the store."""
        plan = await read_plan(connection, self._schema)
        views = await outdated(connection, self._schema, asked=seed_views)
        return msgspec.structs.replace(plan, functions=(*plan.functions, *views))

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        connection = await self._connect()
        try:
            yield connection
        except asyncpg.PostgresError as error:
            raise refused(error, self._dsn) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            message = (
                f"the link to {masked(self._dsn)} broke: {reason_of(error)}; what was begun is rolled back or complete"
            )
            raise OutcomeUnknown(message) from error
        finally:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=self._deadline)

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._deadline):
                connection, _ = await Links().connect(self._dsn)
        except asyncpg.PostgresError as error:
            raise refused(error, self._dsn, sent=False) from error
        except (OSError, asyncpg.InterfaceError, ValueError) as error:
            reason = reason_of(error, f"no answer within {self._deadline:g} s")
            message = f"cannot connect to {masked(self._dsn)}: {reason}"
            raise StoreUnavailable(message) from error
        version = int(await connection.fetchval("SHOW server_version_num"))
        if version < OLDEST_SERVER:
            await connection.close()
            message = f"{masked(self._dsn)} runs PostgreSQL {version // 10000}, expected 14 or newer"
            raise ConfigError(message)
        return connection

    async def _apply(self, connection: Connection, plan: Plan) -> None:
        await connection.execute(self._foundation())
        for step in plan.migrations:
            await connection.execute(in_schema(step.sql, self._schema))
            record = in_schema(QUERIES["record_migration"], self._schema)
            await connection.execute(record, step.version, step.name, step.checksum)
        # The order of their names is not the order of their needs: SQL functions are checked when made.
        await connection.execute("SET LOCAL check_function_bodies = off")
        for function in plan.functions:
            await connection.execute(spelled(function.sql, self._schema))
            record = in_schema(QUERIES["record_function"], self._schema)
            await connection.execute(record, function.name, function.checksum, RELEASE)

    def _foundation(self) -> str:
        # IF NOT EXISTS would ask for the right to make schemas even where there is one.
        place = quoted(self._schema)
        literal = place.replace("'", "''")
        return f"""
DO $schema$ BEGIN
    IF to_regnamespace('{literal}') IS NULL THEN CREATE SCHEMA {place}; END IF;
END $schema$;
{in_schema(_LEDGER, self._schema)}"""

    def _record(self, table: str, values: str) -> str:
        return in_schema(f"INSERT INTO holdfast.{table} VALUES ({values});", self._schema)  # noqa: S608 - our own files


async def read_plan(connection: Connection, schema: str) -> Plan:
    """Compare a schema with this release."""
    ledger = f"{quoted(schema)}.schema_migrations"
    if await connection.fetchval("SELECT to_regclass($1)", ledger) is None:
        return make_plan((), MIGRATIONS, FUNCTIONS)
    applied = await connection.fetch(in_schema(QUERIES["applied_migrations"], schema))
    functions = await connection.fetch(in_schema(QUERIES["applied_functions"], schema))
    remembered = {row["name"]: AppliedFunction(row["checksum"], row["release"]) for row in functions}
    return make_plan(tuple(Applied(*row) for row in applied), MIGRATIONS, FUNCTIONS, remembered)


def _values(step: Migration | Function) -> str:
    if isinstance(step, Migration):
        return f"{step.version}, '{step.name}', '{step.checksum}'"
    return f"'{step.name}', '{step.checksum}', '{RELEASE}'"
