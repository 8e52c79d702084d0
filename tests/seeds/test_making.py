"""The views are made when somebody asks for them, and kept up to date from then on."""

import uuid
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.errors import ConfigError, InvalidValue
from holdfast.stores.migrate import Function
from holdfast.stores.postgres import seed_views
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import checksum
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.builders import enqueue
from tests.support.connections import in_database

SCHEMAS = "SELECT count(*) FROM pg_namespace WHERE nspname = $1"


def edit(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Let the release bring another text."""
    monkeypatch.setattr(seed_views, "SEED_VIEWS", Function("seed_views", sql, checksum(sql)))


async def test_nobody_gets_views_without_asking(postgres: PostgresStore) -> None:
    assert (await postgres.migrator.up()).is_empty
    ((schemas,),) = await postgres.pool.fetch(SCHEMAS, f"{postgres.schema}_seed")
    assert schemas == 0
    assert [one.name for one in (await postgres.migrator.plan(seed_views=True)).functions] == ["seed_views"]
    assert (await postgres.migrator.plan()).is_empty


async def test_asking_twice_changes_nothing(seeded: PostgresStore) -> None:
    assert (await seeded.migrator.up(seed_views=True)).is_empty
    assert (await seeded.migrator.up()).is_empty


async def test_a_later_release_replaces_them_in_place(
    seeded: PostgresStore, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enqueue(seeded)
    role = f"hf_reader_{uuid.uuid4().hex[:12]}"
    await reader.execute(f"CREATE ROLE {role}; GRANT SELECT ON tasks TO {role}")
    edit(monkeypatch, seed_views.SEED_VIEWS.sql.replace("'PENDING'", "'READY'"))
    store = PostgresStore(seeded.pool.dsn, schema=seeded.schema)
    await store.open()  # what only readers need keeps no program from starting
    await store.close()
    assert [one.name for one in (await seeded.migrator.plan()).functions] == ["seed_views"]
    assert [one.name for one in (await seeded.migrator.up()).functions] == ["seed_views"]
    assert await reader.fetchval("SELECT status FROM tasks") == "READY"
    assert await reader.fetchval("SELECT has_table_privilege($1, 'tasks', 'SELECT')", role)
    assert (await seeded.migrator.up()).is_empty
    await reader.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_every_function_of_the_store_can_be_made_anew_beside_them(
    seeded: PostgresStore, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No view is in the way of what a later release brings."""
    await reader.execute(f'DELETE FROM "{seeded.schema}".schema_functions')
    done = {function.name for function in (await seeded.migrator.up()).functions}
    assert {"seed_views", "views", "folded", "clock"} <= done
    assert await reader.fetch("TABLE queue_job") == []


async def test_dropped_views_come_back_when_asked_for(seeded: PostgresStore, reader: Any) -> None:
    await reader.execute(f'DROP SCHEMA "{seeded.schema}_seed" CASCADE')
    assert (await seeded.migrator.up()).is_empty
    assert not (await seeded.migrator.up(seed_views=True)).is_empty
    assert await reader.fetch("TABLE queue_job") == []


async def test_the_printed_sql_makes_them(dsn: str, schema: str) -> None:
    migrator = PostgresStore(dsn, schema=schema).migrator
    text = migrator.sql(await migrator.plan(seed_views=True))
    connection = await asyncpg.connect(dsn)
    await connection.execute(text)
    assert await connection.fetch(f'TABLE "{schema}_seed".queue_job') == []
    assert (await migrator.plan(seed_views=True)).is_empty
    await connection.execute(f'DROP SCHEMA "{schema}_seed" CASCADE')
    await connection.close()


async def test_an_empty_database_gets_them_with_the_rest(dsn: str) -> None:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    store = PostgresStore(in_database(dsn, name))
    assert (await store.migrator.up(seed_views=True)).functions[-1].name == "seed_views"
    await store.open()
    assert await store.pool.fetch("SELECT id FROM holdfast_seed.delayed_jobs") == []
    await store.close()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


async def test_a_name_that_leaves_no_room_is_refused(dsn: str) -> None:
    with pytest.raises(InvalidValue, match="at most 58 bytes"):
        await PostgresStore(dsn, schema="x" * 59).migrator.up(seed_views=True)


async def test_sqlite_has_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a store on PostgreSQL"):
        await SqliteStore(str(tmp_path / "jobs.db")).migrator.up(seed_views=True)
