"""The bench's place in a PostgreSQL database: a schema of its own."""

import secrets

from holdfast.bench.place import NAME, PAYLOAD, Facts, rate, settings_on, unbroken
from holdfast.bench.setup import DEADLINE_S
from holdfast.config import Settings
from holdfast.errors import ConfigError, HoldfastError
from holdfast.locations import PostgresLocation, masked
from holdfast.stores import make_store
from holdfast.stores.postgres.connection import Connection, Pool
from holdfast.stores.sql import quoted

_SETTINGS = ("server_version", "synchronous_commit", "fsync", "full_page_writes", "synchronous_standby_names")
_MAY_CREATE = """
SELECT current_user::text, current_database()::text, has_database_privilege(current_database(), 'CREATE'),
    pg_is_in_recovery()
"""
_REMOVE_S = 10.0


class PostgresPlace:
    """A schema in the user's database; the user's own schema is neither read nor written."""

    def __init__(self, settings: Settings) -> None:
        assert isinstance(settings.location, PostgresLocation)  # noqa: S101 - who makes it has looked
        self._settings = settings
        self._dsn = settings.location.dsn
        self._schema = f"{NAME}{secrets.token_hex(4)}"
        self._pool = Pool(self._dsn, 1, DEADLINE_S)
        self._is_made = False

    async def open(self) -> None:
        """Connect, and make sure that this role may create a schema."""
        await self._pool.open()
        ((role, database, may_create, is_replica),) = await self._pool.fetch(_MAY_CREATE)
        if is_replica:
            message = f"{masked(self._dsn)} is a replica, expected a server that takes writes: name the primary"
            raise ConfigError(message)
        if not may_create:
            grant = f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(role)}"
            message = f"the role {role} may not create a schema in the database {database}, and the bench works in one"
            message += f" of its own, so that it never touches your jobs: {grant}, or name another role or database"
            raise ConfigError(message)

    async def facts(self) -> Facts:
        """Tell the version of the server, and what it does before it confirms a commit."""
        rows = await self._pool.fetch("SELECT name, current_setting(name) FROM unnest($1::text[]) AS name", _SETTINGS)
        settings = {name: value for name, value in rows if value != ""}
        version, *_ = settings.pop("server_version").split()  # a distribution adds its own after it
        return Facts(f"PostgreSQL {version}", settings)

    async def fresh(self) -> Settings:
        """Make the schema anew."""
        settings = settings_on(self._settings.url, self._settings, self._schema)

        async def make() -> Settings:
            self._is_made = True
            await self._drop(self._pool)
            await make_store(settings).migrator.up()
            return settings

        return await unbroken(make())  # or a schema might appear after it was looked for

    async def insert(self, rows: int) -> float:
        """Insert bare rows with a prepared statement, with one commit for each."""
        table = f"{quoted(self._schema)}.bare_rows"
        await self._pool.fetch(f"CREATE TABLE {table} (id bigint PRIMARY KEY, payload jsonb NOT NULL)")

        async def insert_all(connection: Connection) -> float:
            insert = await connection.prepare(f"INSERT INTO {table} VALUES ($1, $2)")  # noqa: S608 - a name of our own
            return await rate(rows, lambda number: insert.fetch(number, PAYLOAD))

        return await self._pool.call(insert_all)

    async def remove(self) -> list[str]:
        """Drop the schema."""
        await self._pool.close()
        if not self._is_made:
            return []
        pool = Pool(self._dsn, 1, _REMOVE_S)  # whatever has happened to the connection of the other
        try:
            await pool.open()
            await self._drop(pool)
        except HoldfastError as error:
            return [f"the schema {self._schema} ({error}): DROP SCHEMA IF EXISTS {quoted(self._schema)} CASCADE"]
        finally:
            await pool.close()
        return []

    async def _drop(self, pool: Pool) -> None:
        await pool.fetch(f"DROP SCHEMA IF EXISTS {quoted(self._schema)} CASCADE")
