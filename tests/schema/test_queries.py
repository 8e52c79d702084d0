"""Named queries: the same names for both stores, each of them valid and used."""

import ast
import re
import sqlite3
from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.stores.sql import files, in_schema, load_queries
from holdfast.stores.sqlite.statements import split
from holdfast.stores.sqlite.store import SqliteStore

POSTGRES, SQLITE = "holdfast.stores.postgres", "holdfast.stores.sqlite"
_HEADING = re.compile(r"^-- name: (\w+)\n(.*)$", re.MULTILINE)


def names(package: str, *, shared: bool) -> set[str]:
    """Read the names of a store's queries: those that both have, or those of its own."""
    own = f"only_{package.rpartition('.')[2]}"
    chosen = [file for file in files(package, "queries") if file.name.startswith(own) is not shared]
    return {heading[1] for file in chosen for heading in _HEADING.finditer(file.read_text(encoding="utf-8"))}


def test_both_stores_define_the_same_names() -> None:
    assert names(POSTGRES, shared=True) == names(SQLITE, shared=True)
    assert names(POSTGRES, shared=False) & names(SQLITE, shared=True) == set()
    assert names(SQLITE, shared=False) & names(POSTGRES, shared=True) == set()


def test_both_stores_keep_a_query_in_the_same_file() -> None:
    def places(package: str) -> dict[str, str]:
        return {
            heading[1]: file.name
            for file in files(package, "queries")
            if not file.name.startswith("only_")
            for heading in _HEADING.finditer(file.read_text(encoding="utf-8"))
        }

    assert places(POSTGRES) == places(SQLITE)


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_every_query_says_what_it_does(package: str) -> None:
    for file in files(package, "queries"):
        for heading in _HEADING.finditer(file.read_text(encoding="utf-8")):
            assert re.fullmatch(r"-- [A-Z].{5,}", heading[2]), f"{file.name}: {heading[1]}"


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_every_query_is_used(package: str) -> None:
    used: set[str] = set()
    for file in resources.files(package).iterdir():
        if file.name.endswith(".py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            used |= {
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    assert set(load_queries(package)) - used == set()


async def test_every_query_of_postgres_prepares(dsn: str, schema: str) -> None:
    connection = await asyncpg.connect(dsn)
    wrong = {}
    for name, sql in load_queries(POSTGRES).items():
        try:
            await connection.prepare(in_schema(sql, schema))
        except asyncpg.PostgresError as error:
            wrong[name] = str(error)
    await connection.close()
    assert wrong == {}


class _Nothing(dict[str, Any]):
    """Answers every parameter with null."""

    def __missing__(self, name: str) -> None:
        return None


async def test_every_query_of_sqlite_prepares(tmp_path: Path) -> None:
    await SqliteStore(str(tmp_path / "jobs.db")).migrator.up()
    database = sqlite3.connect(tmp_path / "jobs.db")
    wrong = {}
    for name, text in load_queries(SQLITE).items():
        statements = split(f"{text};")
        assert statements, name
        for statement in statements:
            try:
                database.execute(f"EXPLAIN {statement}", _Nothing())
            except sqlite3.Error as error:
                wrong[name] = str(error)
    database.close()
    assert wrong == {}
