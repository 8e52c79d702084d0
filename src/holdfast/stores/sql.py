"""Named queries: SQL lives in `.sql` files, with the same names for every database.

A file holds queries headed by `-- name: claim_jobs` and a line that says what the query does. In the files the schema
is spelled `holdfast.`, so that they stay valid SQL; `in_schema` spells another one.
"""

import hashlib
import re
from importlib import resources
from importlib.resources.abc import Traversable

DEFAULT_SCHEMA = "holdfast"
_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_DESCRIPTION = re.compile(r"\A(?:--.*\n)+")
_GUARD = re.compile(r"^ *-- guard\b.*\n| *-- guard\b.*$", re.MULTILINE)
_SCHEMA = re.compile(r"\bholdfast\.")


def load_queries(package: str) -> dict[str, str]:
    """Read every named query of a store."""
    queries: dict[str, str] = {}
    for file in files(package, "queries"):
        _, *parts = _HEADING.split(read(file))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in queries:
                message = f"query {name} is defined twice in {package}"
                raise ValueError(message)
            queries[name] = _DESCRIPTION.sub("", text.strip()).removesuffix(";")
    return queries


def files(package: str, folder: str) -> list[Traversable]:
    """List the SQL files of a folder inside a package, in order of their names."""
    found = resources.files(package).joinpath(folder)
    return sorted((file for file in found.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def read(file: Traversable) -> str:
    """Read a file without the names of its guards, so that a name given to a guard is no other text to a database."""
    return _GUARD.sub("", file.read_text(encoding="utf-8"))


def in_schema(sql: str, schema: str) -> str:
    """Spell the schema of a query, quoted unless it is the default."""
    if schema == DEFAULT_SCHEMA:
        return sql
    return _SCHEMA.sub(lambda _: f"{quoted(schema)}.", sql)


def quoted(name: str) -> str:
    """Quote an identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def checksum(sql: str) -> str:
    """Fingerprint a migration or a function, so that a later edit is noticed."""
    return hashlib.sha256(sql.encode()).hexdigest()[:16]
