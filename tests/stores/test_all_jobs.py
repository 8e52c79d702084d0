"""The view `all_jobs` has live and finished jobs under the names of the documentation, on both stores."""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Holdfast
from holdfast.stores.postgres.store import PostgresStore

_SQL = "SELECT kind, state, run, key FROM {} ORDER BY state"
_ROWS = [("greet", "completed", 1, "first"), ("greet", "queued", 1, None)]


async def fill(app: Holdfast) -> None:
    """Finish one job, and enqueue another."""

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with app:
        await greet.using(key="first").enqueue(name="Ada")
        await app.run_worker(until="empty")
        await greet.enqueue(name="Bob")


async def test_on_sqlite(tmp_path: Path) -> None:
    await fill(Holdfast(f"sqlite:///{tmp_path}/jobs.db"))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database:
        assert database.execute(_SQL.format("holdfast_all_jobs")).fetchall() == _ROWS
        assert database.execute("SELECT json_extract(args, '$.name') FROM holdfast_all_jobs").fetchall() == [
            ("Bob",),
            ("Ada",),
        ]
        database.execute("UPDATE holdfast_history SET delete_at = 0")  # their retention has ended
        assert database.execute("SELECT state FROM holdfast_all_jobs").fetchall() == [("queued",)]


async def test_on_postgres(dsn: str, postgres: PostgresStore) -> None:
    await fill(Holdfast(dsn, schema=postgres.schema))
    rows = await postgres.fetch_sql(_SQL.format("holdfast.all_jobs"))
    assert [tuple(row) for row in rows] == _ROWS
