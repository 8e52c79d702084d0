"""The statements inside the functions of the PostgreSQL store, cut out by their markers and made explainable."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from holdfast.stores.migrate import load_functions
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.sql import in_schema

_PLAN = re.compile(r"-- plan: (\w+)\n(.*?)-- plan end", re.DOTALL)
_VARIABLE = re.compile(r"\b[pv]_\w+")
_SETTING = re.compile(r"\bSET (\w+) = (\w+)")
_PARAMETER = re.compile(r"\b(p_\w+) ([a-z ]+(?:\[\])?)(?=\s*[,)])")
_DECLARED = re.compile(r"^ +(v_\w+) ([\w.\[\]]+)(?: :=|;)", re.MULTILINE)
_INTO = re.compile(r"INTO\s+v_\w+(,\s+v_\w+)*")


class Statement(NamedTuple):
    """A statement of a function, its variables as numbered parameters, and the planner switches it runs under."""

    name: str
    sql: str
    variables: tuple[str, ...]
    types: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]


def load_statements() -> Iterator[Statement]:
    """Cut the marked statements out of the function files."""
    for function in load_functions("holdfast.stores.postgres"):
        header, _, _ = function.sql.partition("AS $$")
        types = dict(_PARAMETER.findall(header)) | dict(_DECLARED.findall(function.sql))
        for name, text in _PLAN.findall(function.sql):
            sql = _INTO.sub("", text).strip().removesuffix(";")
            variables = tuple(dict.fromkeys(_VARIABLE.findall(sql)))
            yield Statement(
                name,
                _VARIABLE.sub(partial(_numbered, variables), sql),
                variables,
                tuple(types[variable] for variable in variables),
                tuple(_SETTING.findall(header)),
            )


def _numbered(variables: tuple[str, ...], match: re.Match[str]) -> str:
    return f"${variables.index(match[0]) + 1}"


class Node(NamedTuple):
    """One step of a plan."""

    kind: str
    relation: str | None
    index_name: str | None
    rows: int
    below: tuple["Node", ...]

    def walk(self) -> Iterator["Node"]:
        """Give this step and everything below it."""
        yield self
        for node in self.below:
            yield from node.walk()


class Explained(NamedTuple):
    """A plan, and what running it read."""

    plan: Node
    buffers: int
    milliseconds: float

    def scans(self, relation: str) -> list[Node]:
        """Give the steps that read a table."""
        return [node for node in self.plan.walk() if node.relation == relation and "Scan" in node.kind]

    def sorts_of(self, relation: str) -> list[Node]:
        """Give the steps that sort what was read from a table."""
        sorts = [node for node in self.plan.walk() if "Sort" in node.kind]
        return [node for node in sorts if any(below.relation == relation for below in node.walk())]


async def forget_statistics(connection: Connection, schema: str, *tables: str) -> None:
    """Empty tables, and keep the planner from learning what a test puts into them.

    TRUNCATE leaves small indexes: one whose pages outlive its rows costs nothing, as the planner sees it.
    """
    for table in tables:
        off = f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = off)"
        sql = f"TRUNCATE holdfast.{table} CASCADE; {off}; ANALYZE holdfast.{table}"
        await connection.execute(in_schema(sql, schema))


async def explain(
    connection: Connection, schema: str, statement: Statement, values: dict[str, str], *, run: bool
) -> Explained:
    """Explain a statement's generic plan under its function's switches; when run, it is rolled back.

    Values are SQL expressions by the name of their variable. EXECUTE of a prepared statement under
    plan_cache_mode = force_generic_plan shows the very plan that the function uses.
    """
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(
            f"PREPARE planned ({', '.join(statement.types)}) AS {in_schema(statement.sql, schema)}"
        )
        for name, value in statement.settings:
            await connection.execute(f"SET LOCAL {name} = {value}")
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        given = ", ".join(values[variable] for variable in statement.variables)
        options = "ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON" if run else "FORMAT JSON"
        found = await connection.fetchval(f"EXPLAIN ({options}) EXECUTE planned({given})")
    finally:
        await transaction.rollback()
        await connection.execute("DEALLOCATE ALL")
    return _read(found)


async def explain_query(connection: Connection, sql: str, *args: object) -> Explained:
    """Run a query with its parameters, and read its plan."""
    return _read(await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", *args))


def _read(found: str) -> Explained:
    (answer,) = msgspec.json.decode(found)
    plan = answer["Plan"]
    buffers = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
    return Explained(_node(plan), buffers, answer.get("Execution Time", 0.0))


def _node(plan: dict[str, Any]) -> Node:
    return Node(
        plan["Node Type"],
        plan.get("Relation Name"),
        plan.get("Index Name"),
        round(plan.get("Actual Rows", 0) * plan.get("Actual Loops", 1)),
        tuple(_node(below) for below in plan.get("Plans", ())),
    )
