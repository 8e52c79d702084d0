"""New connections, each right for what lies between it and the server: nothing, or a pooler.

A pooler in transaction mode gives each transaction whichever session of the server is free. A statement that was
prepared is then unknown to the next session, unless the pooler keeps account of them, as PgBouncer does from 1.21 on
with `max_prepared_statements` above 0. Each connection is looked at when it is made, for the next may be led elsewhere.
"""

import contextlib
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

if TYPE_CHECKING:
    Plain = asyncpg.Connection[asyncpg.Record]  # generic in the stubs only
else:
    Plain = asyncpg.Connection

FAREWELL_S = 2.0
_IS_KNOWN = "SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = $1::text)"


class Link(NamedTuple):
    """A connection, and whether a pooler gave it."""

    connection: Plain
    is_pooled: bool


class Links:
    """Makes connections; what the last one met is expected of the next."""

    def __init__(self) -> None:
        self._keeps_statements = True

    async def connect(self, dsn: str, **options: Any) -> Link:
        """Connect, with prepared statements where they are safe."""
        expected = self._keeps_statements
        connection = await _connect(dsn, options, keeps_statements=expected)
        try:
            is_pooled = not await is_direct(connection)
            self._keeps_statements = not is_pooled or await _keeps_statements(connection)
        except BaseException:
            connection.terminate()
            raise
        if expected and not self._keeps_statements:
            # Without them it is right wherever it leads, so it is not looked at again.
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=FAREWELL_S)
            connection = await _connect(dsn, options, keeps_statements=False)
        return Link(connection, is_pooled)


async def is_direct(connection: "Plain | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> bool:
    """Whether the session that answers is the one that was promised at the start: a pooler makes up a number."""
    # As plain text, because nothing is known yet of prepared statements: the number of rows is the answer.
    status = await connection.execute(f"SELECT 1 WHERE pg_backend_pid() = {connection.get_server_pid()}")
    return status == "SELECT 1"


async def _keeps_statements(connection: Plain) -> bool:
    """Whether the pooler keeps account of prepared statements: it then has names of its own for them."""
    name = f"holdfast_{secrets.token_hex(8)}"
    async with connection.transaction():  # which one session serves as a whole
        statement = await connection.prepare(_IS_KNOWN, name=name)
        is_ours: bool = await statement.fetchval(name)
        if is_ours:
            await connection.execute(f"DEALLOCATE {name}")  # the session goes on to serve others
    return not is_ours


async def _connect(dsn: str, options: dict[str, Any], *, keeps_statements: bool) -> Plain:
    chosen: dict[str, Any] = options if keeps_statements else {**options, "statement_cache_size": 0}
    connection: Plain = await asyncpg.connect(dsn, **chosen)
    return connection
