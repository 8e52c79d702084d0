"""Enqueue inside the caller's own transaction, on whatever connection the caller has.

Each library only has to run one SELECT of `enqueue_jobs` on the given connection. Nothing here commits, rolls back or
opens a savepoint. Libraries are recognised by the module of the connection's class, so that none has to be installed.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from holdfast.errors import ConfigError
from holdfast.job import NewJob
from holdfast.stores.postgres import rows
from holdfast.stores.values import Inserted, Insertion

Rows = list[tuple[int, int | None, bool, bool, str | None]]

log = logging.getLogger("holdfast")
_ACCEPTED = (
    "a connection of asyncpg, psycopg (sync or async), Django, or a Connection, Session, AsyncConnection or "
    "AsyncSession of SQLAlchemy"
)


def is_async(connection: object) -> bool:
    """Whether the connection's library is awaited; refuses what is no known connection."""
    kind = _kind(connection)
    if kind in _ASYNC:
        return True
    if kind in _SYNC:
        return False
    message = f"connection: expected {_ACCEPTED}, got {type(connection).__module__}.{type(connection).__qualname__}"
    raise ConfigError(message)


async def insert_on(connection: Any, sql: str, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Enqueue on an asynchronous connection."""
    return _answers(await _ASYNC[_kind(connection)](connection, sql, encode(jobs)))


def insert_on_sync(connection: Any, sql: str, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Enqueue on a synchronous connection, wholly on the caller's thread."""
    return _answers(_SYNC[_kind(connection)](connection, sql, encode(jobs)))


def encode(jobs: Sequence[NewJob]) -> str:
    """Write jobs as the JSON that `enqueue_v1` reads; their ids are drawn by the function."""
    return msgspec.json.encode([_fields(job) for job in jobs]).decode()


def _fields(job: NewJob) -> dict[str, object]:
    fields: dict[str, object] = {
        "kind": job.kind,
        "queue": job.queue,
        "priority": job.priority,
        "args": msgspec.Raw(job.payload),
        "run_at": job.run_at,
        "delay_ms": job.delay_ms,
        "unique": job.unique,
        "unique_for_ms": job.unique_for_ms,
        "key": job.key,
        "max_attempts": job.max_attempts,
        "max_crashes": job.max_crashes,
        "tags": job.tags,
        "actor": job.actor,
        "extra": None if job.extra is None else msgspec.Raw(job.extra),
        "parent": job.parent,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return given | {"timeout_ms": job.timeout_ms}  # here null has a meaning: no timeout


def _answers(found: Rows) -> list[Inserted]:
    return [
        Inserted(_outcome(existing=existing, conflict=conflict, limited=limited), job_id, rows.refusal(limited))
        for _, job_id, existing, conflict, limited in found
    ]


def _outcome(*, existing: bool, conflict: bool, limited: str | None) -> Insertion:
    if limited is not None:
        return Insertion.LIMITED
    if conflict:
        return Insertion.CONFLICT
    return Insertion.EXISTING if existing else Insertion.CREATED


def _kind(connection: object) -> str:
    """Name the library and class of a connection, looking through its bases."""
    for base in type(connection).__mro__:
        name = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        if name in _ASYNC or name in _SYNC:
            return name
    return ""


def _say_autocommit(connection: object) -> None:
    log.warning(
        "enqueue on a connection of %s without an open transaction: the job is committed at once",
        type(connection).__module__.partition(".")[0],
    )


async def _asyncpg(connection: Any, sql: str, jobs: str) -> Rows:
    if not connection.is_in_transaction():
        _say_autocommit(connection)
    return [tuple(row) for row in await connection.fetch(sql, jobs)]


def _psycopg(connection: Any, sql: str, jobs: str) -> Rows:
    if connection.autocommit and connection.info.transaction_status == 0:
        _say_autocommit(connection)
    from psycopg import Cursor  # noqa: PLC0415 - the caller has it, we may not
    from psycopg.rows import tuple_row  # noqa: PLC0415 - likewise

    # A cursor of our own: those of the connection may spell parameters and rows in any way.
    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(_percent(sql), (jobs,))
        return list(cursor.fetchall())


async def _psycopg_async(connection: Any, sql: str, jobs: str) -> Rows:
    if connection.autocommit and connection.info.transaction_status == 0:
        _say_autocommit(connection)
    from psycopg import AsyncCursor  # noqa: PLC0415 - the caller has it, we may not
    from psycopg.rows import tuple_row  # noqa: PLC0415 - likewise

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(_percent(sql), (jobs,))
        return list(await cursor.fetchall())


def _sqlalchemy(connection: Any, sql: str, jobs: str) -> Rows:
    if _is_autocommit(connection):
        _say_autocommit(connection)
    return [tuple(row) for row in connection.execute(_text(sql), {"jobs": jobs})]


def _sqlalchemy_session(session: Any, sql: str, jobs: str) -> Rows:
    return _sqlalchemy(session.connection(), sql, jobs)


async def _sqlalchemy_async(connection: Any, sql: str, jobs: str) -> Rows:
    if _is_autocommit(connection.sync_connection):
        _say_autocommit(connection)
    return [tuple(row) for row in await connection.execute(_text(sql), {"jobs": jobs})]


async def _sqlalchemy_async_session(session: Any, sql: str, jobs: str) -> Rows:
    return await _sqlalchemy_async(await session.connection(), sql, jobs)


def _is_autocommit(connection: Any) -> bool:
    detect = getattr(connection.dialect, "detect_autocommit_setting", None)  # SQLAlchemy 2.0 learned it late
    return detect is not None and bool(detect(connection.connection.dbapi_connection))


def _django(connection: Any, sql: str, jobs: str) -> Rows:
    if connection.get_autocommit() and not connection.in_atomic_block:
        _say_autocommit(connection)
    with connection.cursor() as cursor:
        cursor.execute(_percent(sql), [jobs])
        return list(cursor.fetchall())


def _percent(sql: str) -> str:
    return _with_parameter(sql, "%s", lambda text: text.replace("%", "%%"))


def _text(sql: str) -> Any:
    from sqlalchemy import text  # noqa: PLC0415 - the caller has it, we may not

    # A colon would start a parameter of SQLAlchemy, so those in the name of a schema are escaped.
    return text(_with_parameter(sql, ":jobs", lambda part: part.replace(":", "\\:")))


def _with_parameter(sql: str, parameter: str, escaped: Callable[[str], str]) -> str:
    """Spell the one parameter as a library wants it; the name of the schema, before it, may hold anything."""
    before, _, after = sql.rpartition("$1::text::jsonb")
    return f"{escaped(before)}CAST(CAST({parameter} AS text) AS jsonb){escaped(after)}"


_ASYNC: dict[str, Callable[[Any, str, str], Awaitable[Rows]]] = {
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "psycopg.AsyncConnection": _psycopg_async,
    "sqlalchemy.AsyncConnection": _sqlalchemy_async,
    "sqlalchemy.AsyncSession": _sqlalchemy_async_session,
}
_SYNC: dict[str, Callable[[Any, str, str], Rows]] = {
    "psycopg.Connection": _psycopg,
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _sqlalchemy_session,
    "sqlalchemy.scoped_session": _sqlalchemy_session,
    "django.BaseDatabaseWrapper": _django,
    "django.ConnectionProxy": _django,
}
