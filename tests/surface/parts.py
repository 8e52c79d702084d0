"""The parts of the public surface, by the files that hold them."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.surface.answers import describe_answers
from tests.surface.commands import describe_commands
from tests.surface.documents import describe_configuration, describe_metrics, describe_openapi
from tests.surface.python_names import describe_python
from tests.surface.sql_names import describe_sql
from tests.surface.told import describe_events

FOLDER = Path(__file__).parent
SQL = "sql.txt"

PARTS: Mapping[str, Callable[[Path], str]] = {
    "python.txt": lambda _: describe_python(),
    "cli.txt": lambda _: describe_commands(),
    "cli_json.txt": describe_answers,
    "openapi.json": lambda _: describe_openapi(),
    "config.json": lambda _: describe_configuration(),
    "metrics.txt": lambda _: describe_metrics(),
    "events.txt": lambda _: asyncio.run(describe_events()),
}
"""What describes each part, given an empty folder; the SQL needs a server besides."""


def describe_sql_part(dsn: str, schema: str, folder: Path) -> str:
    """Describe the SQL of a store in a schema, which is made or brought up to date."""
    return asyncio.run(describe_sql(dsn, schema, folder))
