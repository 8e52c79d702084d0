"""Schemas that tests have to themselves, one after the other.

Making one and dropping it takes longer than most tests. One whose structure is as it was made is emptied and handed on.
Functions that a test has replaced are made as they were, and its own tables are dropped; a schema that is still another
one then is dropped as a whole.
"""

import asyncio
import uuid
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.sql import SQL, Identifier

from holdfast.stores.migrate import load_functions
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema

_FUNCTIONS = """
SELECT oid, proname, md5(pg_proc::text) AS version FROM pg_proc WHERE pronamespace = %(name)s::regnamespace
"""
# Every row of the catalogue that belongs to the schema, with the transaction that wrote it: whoever changes anything
# leaves another version. Tables and functions are known by what they are: TRUNCATE leaves a table as it was, and a
# function can be made as it was. What the planner has learnt counts too, because the next test expects it to know
# nothing.
_STRUCTURE = f"""
WITH tables AS (
    SELECT oid, concat_ws(' ', relname, relkind, relowner, relacl, reloptions, relam, relpersistence, relispartition,
        relrowsecurity, relforcerowsecurity, relreplident, reltablespace, pg_get_expr(relpartbound, oid)) AS version
    FROM pg_class WHERE relnamespace = %(name)s::regnamespace
)
SELECT md5(string_agg(part.name || part.id::text || ':' || part.version, ' ' ORDER BY part.name, part.id))
FROM (
    SELECT 'schema' AS name, oid AS id, xmin::text AS version FROM pg_namespace WHERE oid = %(name)s::regnamespace
    UNION ALL SELECT 'class', oid, version FROM tables
    UNION ALL SELECT 'function', oid, version FROM ({_FUNCTIONS}) AS functions
    UNION ALL SELECT 'type', oid, xmin::text FROM pg_type WHERE typnamespace = %(name)s::regnamespace
    UNION ALL SELECT 'constraint', oid, xmin::text FROM pg_constraint WHERE connamespace = %(name)s::regnamespace
    UNION ALL SELECT 'statistics', oid, xmin::text FROM pg_statistic_ext WHERE stxnamespace = %(name)s::regnamespace
    UNION ALL SELECT 'column ' || attnum, attrelid, xmin::text FROM pg_attribute
        WHERE attrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'default', oid, xmin::text FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'index', indexrelid, xmin::text FROM pg_index WHERE indrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'trigger', oid, xmin::text FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'rule', oid, xmin::text FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM tables)
    UNION ALL SELECT 'policy', oid, xmin::text FROM pg_policy WHERE polrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'learnt ' || staattnum, starelid, xmin::text FROM pg_statistic
        WHERE starelid IN (SELECT oid FROM tables)
) AS part
"""
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = %(name)s::regnamespace AND relkind = 'r'"
_IS_THERE = "SELECT true FROM pg_namespace WHERE nspname = %(name)s"
_USED = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relnamespace = %(name)s::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
FEW_BYTES = 8 * 8192  # the planner takes a table that nothing is known of to have ten pages at least
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
    tables: set[str]
    functions: dict[str, str]


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
        rows = {table: self._rows(name, table) for table in self._used(name)}
        self._made[name] = _Made(self._structure(name), rows, set(self._first(_TABLES, name)), self._functions(name))
        return name

    def give_back(self, name: str) -> None:
        """Take a schema back: empty it, or drop it."""
        made = self._made.pop(name)
        if not self._first(_IS_THERE, name):
            return
        self._connection.execute(to_end_others(name).encode())
        if not self._is_whole(name, made):
            self._mend(name, made)
            if not self._is_whole(name, made):
                self._drop(name)
                return
        self._empty(name, made)
        self._made[name] = made
        self._free.append(name)

    def close(self) -> None:
        """Drop what is left."""
        for name in self._made:
            self._drop(name)

    def _is_whole(self, name: str, made: _Made) -> bool:
        is_same = self._structure(name) == made.structure
        return is_same and all(self._rows(name, table) == rows for table, rows in made.rows.items())

    def _mend(self, name: str, made: _Made) -> None:
        """Make the functions that a test has replaced as they were, and drop its tables."""
        found = self._functions(name)
        for function in load_functions("holdfast.stores.postgres"):
            if found.get(function.name) != made.functions.get(function.name):
                self._connection.execute(in_schema(function.sql, name).encode())
        for table in set(self._first(_TABLES, name)) - made.tables:
            self._connection.execute(SQL("DROP TABLE IF EXISTS {} CASCADE").format(Identifier(name, table)))

    def _empty(self, name: str, made: _Made) -> None:
        used = {table: size for table, size in self._used(name).items() if table not in made.rows}
        # After TRUNCATE every session plans its statements on the table again.
        few = [
            SQL("{} AS (DELETE FROM {})").format(Identifier(f"gone_{table}"), Identifier(name, table))
            for table, size in used.items()
            if size <= FEW_BYTES
        ]
        many = [Identifier(name, table) for table, size in used.items() if size > FEW_BYTES]
        if many:
            self._connection.execute(SQL("TRUNCATE {} CASCADE").format(SQL(", ").join(many)))
        if few:
            self._connection.execute(SQL("WITH {} SELECT").format(SQL(", ").join(few)))
        self._first(_REWIND, name)

    def _drop(self, name: str) -> None:
        self._connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))

    def _structure(self, name: str) -> str:
        (found,) = self._first(_STRUCTURE, name)
        return str(found)

    def _functions(self, name: str) -> dict[str, str]:
        return {function: version for _, function, version in self._connection.execute(_FUNCTIONS, {"name": name})}

    def _used(self, name: str) -> dict[str, int]:
        return dict(self._connection.execute(_USED, {"name": name}).fetchall())

    def _rows(self, name: str, table: str) -> list[str]:
        rows = SQL("SELECT found::text FROM {} AS found ORDER BY 1").format(Identifier(name, table))
        return [row[0] for row in self._connection.execute(rows)]

    def _first(self, query: LiteralString, name: str) -> list[Any]:
        return [row[0] for row in self._connection.execute(query, {"name": name})]
