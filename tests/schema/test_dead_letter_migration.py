"""What had failed before there were groups of dead letters is in them after the migration."""

import uuid
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.stores.failures import DeadFilter
from holdfast.stores.postgres import migrator as on_postgres
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema, quoted
from holdfast.stores.sqlite import migrator as on_sqlite
from holdfast.stores.sqlite.store import SqliteStore

_OLD = """
INSERT INTO holdfast.history (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, claim, life,
    attempt, crashes, delete_at, finished_at, error_class, error, error_fingerprint
)
VALUES
(1, 'work', 'default', 5, 'failed', 1, '{}', :t, :t, 5, 3, 1, 1, 5, 0, :e, :t, 'E', 'no', 'E@f'),
(2, 'work', 'default', 5, 'failed', 1, '{}', :t, :t, 5, 3, 1, 1, 5, 0, :e, :t, 'E', 'no', 'E@f'),
(3, 'work', 'default', 5, 'failed', 1, '{}', :t, :t, 5, 3, 1, 1, 5, 0, :e, :t, 'Interrupted', 'left', NULL),
(4, 'work', 'default', 5, 'completed', 1, '{}', :t, :t, 5, 3, 1, 1, 5, 0, :e, :t, NULL, NULL, NULL)
"""
FOUND = {("E@f", 2, 2), ("Interrupted", 1, 1)}


def until(step: str, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let the release end where a step begins."""
    names = [step.name for step in module.MIGRATIONS]
    monkeypatch.setattr(module, "MIGRATIONS", module.MIGRATIONS[: names.index(step)])


async def found(store: PostgresStore | SqliteStore) -> set[tuple[str, int, int]]:
    """Read the groups, before they are folded and after."""
    await store.open()
    groups = (await store.list_dead_letters(DeadFilter(), limit=10)).groups
    assert await store.fold_failures(10) == 3
    assert (await store.list_dead_letters(DeadFilter(), limit=10)).groups == groups
    await store.close()
    return {(group.fingerprint, group.seen, group.left) for group in groups}


async def test_on_postgres(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    connection = await asyncpg.connect(dsn)
    store = PostgresStore(dsn, schema=name)
    with monkeypatch.context() as patch:
        until("dead_letters", patch, on_postgres)
        await store.migrator.up()
    sql = _OLD.replace(":t", "now()").replace(":e", "'9999-06-01Z'")
    await connection.execute(in_schema(sql, name))
    await store.migrator.up()
    assert await found(store) == FOUND
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()


async def test_on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "jobs.db")
    with monkeypatch.context() as patch:
        until("dead_letters", patch, on_sqlite)
        old = SqliteStore(path)
        await old.open()
        sql = _OLD.replace(":t", "1700000000000").replace(":e", "250000000000000").replace("holdfast.", "holdfast_")
        await old.connection.write(lambda connection, _: connection.execute(sql).rowcount)
        await old.close()
    assert await found(SqliteStore(path)) == FOUND


_FOLDED = """
INSERT INTO holdfast.dead_letters (
    id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
)
VALUES ('eacbf3330050', 'work', 'E@f', 'default', 'E', 'no', 9, :t, :t, 2)
"""
_WAITING = """
INSERT INTO holdfast.failures (at, job_id, life, kind, queue, fingerprint, error_class, error)
VALUES (:t, 3, 1, 'work', 'default', 'E@f', 'E', 'no')
"""
_SPREAD = ("UPDATE holdfast.history SET queue = 'mine' WHERE id = 1", _FOLDED, _WAITING)
_ALIKE = "UPDATE holdfast.history SET error_fingerprint = 'E@f' WHERE id = 3"
PARTS = {"mine": ("eacbf3330050", 1, 1, 1), "default": ("eacbf3330050", 1, 1, 2)}


async def parts(store: PostgresStore | SqliteStore) -> dict[str, tuple[str, int, int, int]]:
    """Read what the groups are in each queue, of what was counted before."""
    await store.open()
    sql = "SELECT queue, id, seen, first_at = last_at, last_job FROM holdfast.dead_letter_queues"
    rows = await (store.fetch_sql(sql) if isinstance(store, PostgresStore) else _rows(store, sql))
    (group,) = (await store.list_dead_letters(DeadFilter(), limit=10)).groups[:1]
    assert group.seen >= 9, "what was counted of all queues stays"
    await store.close()
    return {row[0]: (row[1], row[2], int(row[3]), row[4]) for row in rows}


async def _write(store: SqliteStore, sql: str) -> None:
    await store.connection.write(lambda connection, _: connection.execute(sql).rowcount)


async def _rows(store: SqliteStore, sql: str) -> list[tuple[Any, ...]]:
    statement = sql.replace("holdfast.", "holdfast_")
    return await store.connection.read(lambda connection, _: connection.execute(statement).fetchall())


async def test_what_was_counted_is_dealt_out_to_its_queues_on_postgres(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    connection = await asyncpg.connect(dsn)
    store = PostgresStore(dsn, schema=name)
    with monkeypatch.context() as patch:
        until("dead_letters_by_queue", patch, on_postgres)
        await store.migrator.up()
    for sql in (_OLD, *_SPREAD, _ALIKE):
        await connection.execute(in_schema(sql.replace(":t", "now()").replace(":e", "'9999-06-01Z'"), name))
    await store.migrator.up()
    assert await parts(store) == PARTS
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()


async def test_what_was_counted_is_dealt_out_to_its_queues_on_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "jobs.db")
    with monkeypatch.context() as patch:
        until("dead_letters_by_queue", patch, on_sqlite)
        old = SqliteStore(path)
        await old.open()
        for text in (_OLD, *_SPREAD, _ALIKE):
            sql = text.replace(":t", "1700000000000").replace(":e", "250000000000000").replace("holdfast.", "holdfast_")
            await _write(old, sql)
        await old.close()
    assert await parts(SqliteStore(path)) == PARTS
