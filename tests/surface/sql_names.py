"""The SQL that others may use: views with their columns, and functions that end in a version."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.stores.postgres.seed_views import schema_of_views
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite.store import SqliteStore

_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = $1 AND c.relkind = 'v' AND a.attnum > 0 ORDER BY c.relname COLLATE "C", a.attnum
"""
_FUNCTIONS = """
SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND p.proname ~ $2 ORDER BY p.proname COLLATE "C", 2
"""
# docs/reference/sql.md: of the stores' own views these may be read.
_STABLE = ("all_jobs",)
_SQLITE = ("holdfast_all_jobs",)


async def describe_sql(dsn: str, schema: str, folder: Path) -> str:
    """Make a schema with seed views and describe it under the name `holdfast`, and a file of SQLite beside it."""
    await PostgresStore(dsn, schema=schema).migrator.up(seed_views=True)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET search_path = pg_catalog")  # it shows up in what the catalogue prints
        parts = await _postgres_parts(connection, schema)
    finally:
        await connection.execute(f"DROP SCHEMA {quoted(schema_of_views(schema))} CASCADE")
        await connection.close()
    return "\n".join([*parts, *await _sqlite_views(folder)])


async def _postgres_parts(connection: Any, schema: str) -> list[str]:
    parts: list[str] = []
    seeds = schema_of_views(schema)
    for own, called, chosen in ((schema, "holdfast", _STABLE), (seeds, "holdfast_seed", ())):
        views: dict[str, list[str]] = {}
        for view, column, kind in await connection.fetch(_COLUMNS, own):
            views.setdefault(view, []).append(f"    {column} {kind}")
        parts += [_view(f"{called}.{name}", views[name]) for name in chosen or sorted(views)]
    for own, called, pattern in ((schema, "holdfast", r"_v\d+$"), (seeds, "holdfast_seed", "")):
        for name, arguments, result in await connection.fetch(_FUNCTIONS, own, pattern):
            parts.append(f"postgresql function {called}.{name}\n    ({arguments})\n    -> {result}\n")
    parts.append(f"fields of a job for holdfast.enqueue_v1\n{await _fields(connection, schema)}\n")
    return parts


async def _fields(connection: Any, schema: str) -> str:
    """Ask with a field that does not exist: the answer names those that do."""
    try:
        await connection.fetch(f"SELECT * FROM {quoted(schema)}.enqueue_v1($1)", '[{"kind": "x", "no_such_field": 1}]')
    except asyncpg.InvalidParameterValueError as error:
        return "".join(f"    {field}\n" for field in str(error).partition("expected one of ")[2].split(", ")).rstrip()
    message = "enqueue_v1 took a field that does not exist"
    raise AssertionError(message)


async def _sqlite_views(folder: Path) -> list[str]:
    await SqliteStore(str(folder / "views.db")).migrator.up()
    with closing(sqlite3.connect(folder / "views.db")) as database:
        found = {view: database.execute(f"PRAGMA table_info({view})").fetchall() for view in _SQLITE}
    return [
        "\n".join([f"sqlite view {view}", *(f"    {row[1]} {row[2]}".rstrip() for row in rows)]) + "\n"
        for view, rows in found.items()
    ]


def _view(name: str, columns: list[str]) -> str:
    return "\n".join([f"postgresql view {name}", *columns]) + "\n"
