"""What an enqueue sends on the caller's connection: one SELECT, no savepoint, no commit, nothing else."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy.event

from tests.adapters.conftest import Shop, on_postgres, on_sqlite
from tests.support.libraries import (
    AsyncpgCaller,
    Caller,
    DjangoCaller,
    PsycopgAsyncCaller,
    PsycopgCaller,
    SqlalchemyAsyncCaller,
    SqlalchemyConnection,
    SqlalchemySession,
    SyncCaller,
)

# libpq's trace: `F 43 Parse "name" "text" ...` or `F 43 Query "text"`, where a text may have several lines.
_SENT = re.compile(r'^F\t\d+\t(?:Query\t |Parse\t "\w*" )"(.*?)"[\d ]*\n(?=[FB]\t)', re.MULTILINE | re.DOTALL)


@on_postgres
async def test_an_enqueue_is_one_select_in_the_callers_transaction(shop: Shop) -> None:
    await shop.caller.begin()
    await shop.order(1)
    async with recorded(shop.caller) as statements:
        await shop.caller.enqueue(1)
        await shop.caller.enqueue(2, key="k", unique="u", unique_for="1h")
        await shop.caller.enqueue(2, key="k", unique="u", unique_for="1h")
        await shop.caller.enqueue_many([shop.ship.call(3), shop.ship.using(unique="u").call(4)])
    assert len(statements) == 4, statements
    for statement in statements:
        sql = " ".join(line for line in statement.splitlines() if not line.startswith("--"))
        assert re.match(r"SELECT [\w, ]+ FROM \S+\.enqueue_jobs\(", sql), statement
    await shop.caller.commit()


@on_postgres
async def test_jobs_are_written_by_the_callers_own_transaction(shop: Shop) -> None:
    """A row written under a savepoint, or in another transaction, would carry another number."""
    await shop.caller.begin()
    await shop.order(1)
    await shop.caller.enqueue(1)
    await shop.caller.enqueue(2, key="k")
    await shop.caller.enqueue(3, unique="u")
    await shop.caller.enqueue(3, unique="u")
    rows = f"SELECT count(*) FROM {shop.place.jobs} WHERE xmin = CAST(pg_current_xact_id() AS xid)"
    assert await shop.caller.value(rows) == 3
    await shop.caller.commit()


@on_sqlite
async def test_on_sqlite_nothing_is_begun_or_ended(shop: Shop) -> None:
    assert isinstance(shop.caller, SyncCaller)
    statements: list[str] = []
    await shop.caller.begin()
    await shop.order(1)
    driver = await shop.caller.here(lambda: _sqlite_connection(shop.caller))
    await shop.caller.here(lambda: driver.set_trace_callback(statements.append))
    await shop.caller.enqueue(1)
    await shop.caller.enqueue(2, key="k", unique="u", unique_for="1h")
    await shop.caller.enqueue(2, key="k", unique="u", unique_for="1h")
    await shop.caller.enqueue_many([shop.ship.call(3)])
    await shop.caller.here(lambda: driver.set_trace_callback(None))
    words = {statement.split()[0].upper() for statement in statements}
    assert "INSERT" in words
    assert not words & {"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"}
    assert driver.in_transaction
    await shop.caller.commit()
    assert await shop.shipped() == [1, 2, 3]


@on_sqlite
async def test_on_sqlite_the_first_statement_may_be_the_enqueue(shop: Shop) -> None:
    """Nothing of it may be committed by itself, whoever begins the transaction."""
    assert isinstance(shop.caller, SyncCaller)
    await shop.caller.begin()
    await shop.caller.enqueue(1, key="k")
    driver = await shop.caller.here(lambda: _sqlite_connection(shop.caller))
    assert driver.in_transaction
    await shop.caller.rollback()
    assert await shop.jobs() == []
    await shop.caller.begin()
    await shop.caller.enqueue(1, key="k")
    await shop.caller.commit()
    assert await shop.shipped() == [1]


def _sqlite_connection(caller: Caller) -> Any:
    connection = caller.connection
    if isinstance(caller, SqlalchemySession):
        connection = connection.connection()
    if isinstance(caller, SqlalchemyConnection):
        return connection.connection.driver_connection
    return connection.connection if isinstance(caller, DjangoCaller) else connection


# ---- recorders -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def recorded(caller: Caller) -> AsyncIterator[list[str]]:
    """Collect the statements that go out on a caller's connection, by the means of its library."""
    statements: list[str] = []
    if isinstance(caller, AsyncpgCaller):
        caller.connection.add_query_logger(lambda record: statements.append(record.query))
        yield statements
        await asyncio.sleep(0)  # asyncpg calls its loggers in the loop's next turn
    elif isinstance(caller, SqlalchemyConnection | SqlalchemyAsyncCaller):
        engine = caller.engine.sync_engine if isinstance(caller, SqlalchemyAsyncCaller) else caller.engine
        _record_engine(engine, statements.append)
        yield statements
    else:
        with tempfile.NamedTemporaryFile() as file:
            driver = await _psycopg_connection(caller)
            driver.pgconn.trace(file.fileno())
            driver.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
            yield statements
            driver.pgconn.untrace()
            sent = _SENT.findall(Path(file.name).read_text(encoding="utf-8"))
            assert sent, "nothing was traced"
            statements += sent


async def _psycopg_connection(caller: Caller) -> "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]":
    assert isinstance(caller, PsycopgCaller | PsycopgAsyncCaller | DjangoCaller)
    found: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] = (
        caller.connection.connection if isinstance(caller, DjangoCaller) else caller.connection
    )
    return found


def _record_engine(engine: sqlalchemy.Engine, note: Callable[[str], None]) -> None:
    def executed(_: Any, __: Any, statement: str, *___: Any) -> None:
        note(statement)

    sqlalchemy.event.listen(engine, "before_cursor_execute", executed)
    for step in ("begin", "commit", "rollback", "savepoint", "rollback_savepoint", "release_savepoint"):
        sqlalchemy.event.listen(engine, step, lambda *_, step=step: note(step))
