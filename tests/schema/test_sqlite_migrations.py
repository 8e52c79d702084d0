"""Migrations on SQLite: the same promises, on a file."""

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from holdfast.errors import SchemaError
from holdfast.stores.migrate import Migration
from holdfast.stores.sql import checksum
from holdfast.stores.sqlite import migrator as migrations
from holdfast.stores.sqlite.store import SqliteStore
from scripts.dump_schema import dump_sqlite

LEDGER = "holdfast_schema_migrations"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Give the name of a file that does not exist yet."""
    return str(tmp_path / "jobs.db")


def dump(path: str) -> str:
    database = sqlite3.connect(path)
    try:
        return dump_sqlite(database)
    finally:
        database.close()


def execute(path: str, script: str) -> None:
    database = sqlite3.connect(path)
    try:
        database.executescript(script)
    finally:
        database.close()


async def test_a_fresh_file_is_migrated_once(path: str) -> None:
    migrator = SqliteStore(path).migrator
    assert len((await migrator.up()).migrations) == len(migrations.MIGRATIONS)
    assert (await migrator.up()).is_empty
    assert (await migrator.plan()).is_empty


async def test_the_printed_sql_makes_the_same_schema(path: str, tmp_path: Path) -> None:
    migrator = SqliteStore(path).migrator
    plan = await migrator.plan()
    by_hand = str(tmp_path / "by_hand.db")
    execute(by_hand, migrator.sql(plan))
    await migrator.up()
    assert dump(by_hand) == dump(path)
    assert (await SqliteStore(by_hand).migrator.plan()).is_empty


async def test_many_processes_migrate_a_new_file_at_once(path: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from holdfast.stores.sqlite.store import SqliteStore\n"
        "asyncio.run(SqliteStore(sys.argv[1], deadline=60).migrator.up())\n"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, path, stderr=asyncio.subprocess.PIPE, env=dict(os.environ)
        )
        for _ in range(8)
    ]
    answers = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0] * 8, [error.decode()[-500:] for _, error in answers]
    assert (await SqliteStore(path).migrator.plan()).is_empty
    assert len((await SqliteStore(path).migrator.plan()).applied) == len(migrations.MIGRATIONS)


async def test_a_step_that_fails_half_way_leaves_the_old_version(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrator = SqliteStore(path).migrator
    await migrator.up()
    before = dump(path)
    sql = "CREATE TABLE more (id INTEGER);\nINSERT INTO nowhere VALUES (1);\n"
    step = Migration(len(migrations.MIGRATIONS) + 1, "more", sql, checksum(sql))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))
    with pytest.raises(Exception, match="nowhere"):
        await migrator.up()
    assert dump(path) == before
    assert [one.version for one in (await migrator.plan()).migrations] == [step.version]


async def test_an_edited_migration_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    await store.migrator.up()
    first = migrations.MIGRATIONS[0]
    edited = Migration(first.version, first.name, first.sql, "another checksum")
    monkeypatch.setattr(migrations, "MIGRATIONS", (edited, *migrations.MIGRATIONS[1:]))
    for refuse in (store.migrator.plan, store.migrator.up, store.open):
        with pytest.raises(SchemaError, match=f"{first.version:04d}_{first.name}"):
            await refuse()


async def test_a_file_that_is_too_new_is_refused_with_both_numbers(path: str) -> None:
    store = SqliteStore(path)
    await store.migrator.up()
    newest = len(migrations.MIGRATIONS)
    execute(path, f"INSERT INTO {LEDGER} (version, name, checksum, applied_at) VALUES ({newest + 41}, 'later', 'x', 0)")
    for refuse in (store.migrator.plan, store.migrator.up, store.open):
        with pytest.raises(SchemaError, match=rf"version {newest + 41}\b.*\b{newest}\b"):
            await refuse()
