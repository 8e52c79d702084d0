"""Write down what users see of Holdfast, for review: `python scripts/dump_surface.py`, or with the names of some files.

The dumps lie in `tests/surface/` and are compared by a test, so that every change of the public surface shows up in a
diff: names and signatures of Python, the help of commands and the keys of their JSON, OpenAPI, the schema of the
configuration, metrics, events, and the SQL that others may use.
"""

import logging
import sys
import tempfile
import uuid
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))  # the parts are described beside their test

from scripts.dump_schema import server
from tests.surface.parts import FOLDER, PARTS, SQL, describe_sql_part


def _sql(folder: Path) -> str:
    schema = f"hf_{uuid.uuid4().hex[:12]}"
    with server() as dsn:
        try:
            return describe_sql_part(dsn, schema, folder)
        finally:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def main(names: list[str]) -> int:
    """Write the parts that are named, or all of them."""
    parts = {**PARTS, SQL: _sql}
    unknown = [name for name in names if name not in parts]
    if unknown:
        print(f"expected some of {', '.join(parts)}, got {', '.join(unknown)}")
        return 2
    logging.disable()  # jobs that fail on purpose
    for name in names or parts:
        with tempfile.TemporaryDirectory(prefix="holdfast-surface-") as folder:
            text = parts[name](Path(folder))
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{FOLDER / name}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
