"""Running named queries: on SQLite one may hold several statements, which share their parameters."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import DataRefused
from holdfast.stores.sql import load_queries

Row = tuple[Any, ...]


def split(script: str) -> tuple[str, ...]:
    """Cut a script into its statements; a semicolon inside a text, a comment or a trigger does not count."""
    statements: list[str] = []
    begun = ""
    for piece in script.split(";")[:-1]:  # after the last semicolon there is nothing but white space
        begun += piece + ";"
        if sqlite3.complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    return tuple(statements)


QUERIES = {name: split(f"{text};") for name, text in load_queries("holdfast.stores.sqlite").items()}


def fetch(connection: sqlite3.Connection, query: str, **parameters: object) -> list[Row]:
    """Run a named query and return the rows of its last statement."""
    return _execute(connection, query, parameters).fetchall()


def fetch_value(connection: sqlite3.Connection, query: str, **parameters: object) -> Any:
    """Run a named query and return its first value, or None without a row."""
    found = fetch(connection, query, **parameters)
    return found[0][0] if found else None


def change(connection: sqlite3.Connection, query: str, **parameters: object) -> int:
    """Run a named query and return how many rows its last statement changed."""
    return _execute(connection, query, parameters).rowcount


def change_many(connection: sqlite3.Connection, query: str, parameters: Sequence[Mapping[str, object]]) -> int:
    """Run each statement of a named query for all parameters, and return how many rows the last one changed."""
    if not parameters:
        return 0
    for row in parameters:
        _refuse_nul(row.values())
    cursor = _cursor(connection)
    for statement in QUERIES[query]:
        cursor.executemany(statement, parameters)
    return cursor.rowcount


def array(values: Iterable[object]) -> str:
    """Write values as the JSON array that a query reads through json_each."""
    listed = list(values)
    encoded = msgspec.json.encode(listed)
    if b"\\u0000" in encoded:  # or text that only looks like it, behind a backslash of its own
        for value in listed:
            _refuse_nul(value if isinstance(value, tuple) else (value,))
    return encoded.decode()


def document(texts: Mapping[str, str]) -> str:
    """Write texts as the JSON object that a column keeps."""
    _refuse_nul([*texts, *texts.values()])
    return msgspec.json.encode(texts).decode()


def _execute(connection: sqlite3.Connection, query: str, parameters: Mapping[str, object]) -> sqlite3.Cursor:
    _refuse_nul(parameters.values())
    cursor = _cursor(connection)
    for statement in QUERIES[query]:
        cursor.execute(statement, parameters)
    return cursor


def _refuse_nul(values: Iterable[object]) -> None:
    """SQLite would keep a NUL, but half of its functions end there; PostgreSQL has no such text."""
    for value in values:
        if isinstance(value, str) and "\x00" in value:
            message = f"expected text without NUL, got {value[:80]!a}"
            raise DataRefused(message)


def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = None  # a caller's own connection may have one
    return cursor
