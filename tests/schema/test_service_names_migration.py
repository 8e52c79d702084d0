"""What people had set for a service under its old name still holds after the migration."""

import uuid
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.stores.postgres import migrator as on_postgres
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema, quoted
from holdfast.stores.sqlite import migrator as on_sqlite
from holdfast.stores.sqlite.store import SqliteStore

_OLD = (
    """
INSERT INTO holdfast.overrides (path, value, actor, reason, changed_at)
VALUES
('services.fold.interval', '7.5', 'ada', 'too often', :t),
('services.gauges.enabled', 'false', NULL, NULL, :t),
('services.sla.interval', '20', NULL, NULL, :t)
""",
    """
INSERT INTO holdfast.service_reports (name, holder, at, runs, scanned, moved, failures, lag_ms)
VALUES ('promote', 'web-1/17/abc', :t, 12, 3, 2, 0, 4)
""",
)


def before(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the release end before services had new names."""
    names = [step.name for step in module.MIGRATIONS]
    monkeypatch.setattr(module, "MIGRATIONS", module.MIGRATIONS[: names.index("service_names")])


async def write(store: SqliteStore, sql: str) -> None:
    """Change the database as SQL says."""
    await store.connection.write(lambda database, _: database.execute(sql).rowcount)


async def check(app: Holdfast) -> None:
    """Compare what services and settings say."""
    async with app:
        services = {service.name: service for service in await app.services.list()}
        overrides = await app.client.store.list_overrides("")
    paths = {override.path: (override.actor, override.reason) for override in overrides}
    assert services["rollups"].interval_ms == 7_500
    assert not services["lane_counts"].enabled
    assert services["sla"].interval_ms == 20_000
    assert (services["promotion"].leader, services["promotion"].rounds) == ("web-1/17/abc", 12)
    assert paths["services.rollups.interval"] == ("ada", "too often")
    assert paths["services.fold.interval"] == ("ada", "too often"), "a leader of the last release reads it"


async def test_on_postgres(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    connection = await asyncpg.connect(dsn)
    store = PostgresStore(dsn, schema=name)
    with monkeypatch.context() as patch:
        before(on_postgres, patch)
        await store.migrator.up()
    for sql in _OLD:
        await connection.execute(in_schema(sql.replace(":t", "now()"), name))
    await store.migrator.up()
    await check(Holdfast(dsn, schema=name))
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()


async def test_on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "jobs.db")
    with monkeypatch.context() as patch:
        before(on_sqlite, patch)
        old = SqliteStore(path)
        await old.open()
        for text in _OLD:
            await write(old, text.replace(":t", "1700000000000").replace("holdfast.", "holdfast_"))
        await old.close()
    await check(Holdfast(f"sqlite:///{path}"))
