"""The reviewed dumps are what the migrations make; `python scripts/dump_schema.py` writes them anew."""

from pathlib import Path

import asyncpg
import pytest

from scripts.dump_schema import FOLDER, dump_postgres, make_sqlite_dump

_AGAIN = "the schema has changed: review the difference and run `python scripts/dump_schema.py`"


async def test_postgres_is_what_was_reviewed(dsn: str, schema: str) -> None:
    connection = await asyncpg.connect(dsn)
    found = await dump_postgres(connection, schema)
    await connection.close()
    assert found.splitlines() == (FOLDER / "postgres.sql").read_text(encoding="utf-8").splitlines(), _AGAIN


async def test_sqlite_is_what_was_reviewed(tmp_path: Path) -> None:
    found = await make_sqlite_dump(tmp_path)
    assert found.splitlines() == (FOLDER / "sqlite.sql").read_text(encoding="utf-8").splitlines(), _AGAIN


@pytest.mark.parametrize("name", ["postgres.sql", "sqlite.sql"])
def test_a_dump_names_every_part(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    for part in ("jobs", "history", "attempts", "progress", "idempotency", "workers", "queues", "rollups"):
        assert f"{part} (" in text
    assert "hf_" not in text
