"""Schemas that tests have to themselves, one after the other.

Making one and dropping it takes longer than most tests. One whose structure is as it was made is emptied and handed on;
one that a test has changed in any way is dropped.
"""

import asyncio
import uuid
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.sql import SQL, Identifier

from holdfast.stores.postgres.store import PostgresStore

# Every row of the catalogue that belongs to the schema, with the transaction that wrote it: whoever changes anything
# leaves another version. What the planner has learnt counts too, because the next test expects it to know nothing.
_STRUCTURE = """
WITH tables AS (SELECT oid, xmin FROM pg_class WHERE relnamespace = %(name)s::regnamespace)
SELECT md5(string_agg(part.name || part.id::text || ':' || part.version::text, ' ' ORDER BY part.name, part.id))
FROM (
    SELECT 'schema' AS name, oid AS id, xmin AS version FROM pg_namespace WHERE oid = %(name)s::regnamespace
    UNION ALL SELECT 'class', oid, xmin FROM tables
    UNION ALL SELECT 'function', oid, xmin FROM pg_proc WHERE pronamespace = %(name)s::regnamespace
    UNION ALL SELECT 'type', oid, xmin FROM pg_type WHERE typnamespace = %(name)s::regnamespace
    UNION ALL SELECT 'constraint', oid, xmin FROM pg_constraint WHERE connamespace = %(name)s::regnamespace
    UNION ALL SELECT 'statistics', oid, xmin FROM pg_statistic_ext WHERE stxnamespace = %(name)s::regnamespace
    UNION ALL SELECT 'column ' || attnum, attrelid, xmin FROM pg_attribute WHERE attrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'default', oid, xmin FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'index', indexrelid, xmin FROM pg_index WHERE indrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'trigger', oid, xmin FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'rule', oid, xmin FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM tables)
    UNION ALL SELECT 'policy', oid, xmin FROM pg_policy WHERE polrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'learnt ' || staattnum, starelid, xmin FROM pg_statistic WHERE starelid IN (SELECT oid FROM tables)
) AS part
"""
_IS_THERE = "SELECT true FROM pg_namespace WHERE nspname = %(name)s"
_USED = """
SELECT relname FROM pg_class
WHERE relnamespace = %(name)s::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
_REWIND = """
SELECT setval(seqrelid, seqstart, false) FROM pg_sequence
WHERE seqrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(name)s::regnamespace)
"""


def to_end_others(name: str) -> str:
    """Spell how to end whoever is in the middle of something in a schema: it was left by a test that is over."""
    return f"""
    SELECT pg_terminate_backend(pid)
    FROM (
        SELECT DISTINCT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE relnamespace = '{name}'::regnamespace AND pid <> pg_backend_pid()
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS other
    """


class _Made(NamedTuple):
    """How a schema was when nobody had used it."""

    structure: str
    rows: dict[str, list[str]]  # of the tables that are not empty from the start


class Schemas:
    """The schemas of one process."""

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._dsn = dsn
        self._connection = connection
        self._made: dict[str, _Made] = {}
        self._free: list[str] = []

    def take(self) -> str:
        """Give a migrated schema in which nothing has happened yet."""
        if self._free:
            return self._free.pop()
        name = f"hf_{uuid.uuid4().hex[:12]}"
        asyncio.run(PostgresStore(self._dsn, schema=name).migrator.up())
        self._made[name] = _Made(self._structure(name), {table: self._rows(name, table) for table in self._used(name)})
        return name

    def give_back(self, name: str) -> None:
        """Take a schema back: empty it, or drop it."""
        made = self._made.pop(name)
        if not self._first(_IS_THERE, name):
            return
        self._connection.execute(to_end_others(name).encode())
        is_whole = self._structure(name) == made.structure
        if not is_whole or any(self._rows(name, table) != rows for table, rows in made.rows.items()):
            self._drop(name)
            return
        used = [Identifier(name, table) for table in self._used(name) if table not in made.rows]
        if used:
            self._connection.execute(SQL("TRUNCATE {} CASCADE").format(SQL(", ").join(used)))
        self._first(_REWIND, name)
        self._made[name] = made._replace(structure=self._structure(name))
        self._free.append(name)

    def close(self) -> None:
        """Drop what is left."""
        for name in self._made:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))

    def _structure(self, name: str) -> str:
        (found,) = self._first(_STRUCTURE, name)
        return str(found)

    def _used(self, name: str) -> list[str]:
        return self._first(_USED, name)

    def _rows(self, name: str, table: str) -> list[str]:
        rows = SQL("SELECT found::text FROM {} AS found ORDER BY 1").format(Identifier(name, table))
        return [row[0] for row in self._connection.execute(rows)]

    def _first(self, query: LiteralString, name: str) -> list[Any]:
        return [row[0] for row in self._connection.execute(query, {"name": name})]
