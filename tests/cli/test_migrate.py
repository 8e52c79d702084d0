"""`migrate`: on both stores, from nothing to current."""

import json
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Shop
from tests.support.doc_pages import ROOT

MIGRATIONS = ROOT / "src" / "holdfast" / "stores" / "sqlite" / "migrations"


@pytest.fixture
def empty_postgres(tmp_path: Path, dsn: str) -> Iterator[Shop]:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    yield Shop(tmp_path, dsn, name)
    with psycopg.connect(dsn) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture(params=["sqlite_shop", "empty_postgres"])
def empty(request: pytest.FixtureRequest) -> Shop:
    found: Shop = request.getfixturevalue(request.param)
    return found


def test_from_nothing_to_current(empty: Shop) -> None:
    status = json.loads(empty.ok("migrate", "status", "--json"))
    assert (status["current"], status["version"]) == (False, 0)
    assert status["latest"] >= 1
    assert status["migrations"][0] == {"version": 1, "name": "jobs", "state": "pending", "applied_at": None}
    assert empty.ok("migrate", "plan").startswith("would apply 0001_jobs\n")
    assert not (empty.folder / "jobs.db").exists(), "looking makes no file"
    done = empty.ok("migrate", "up")
    assert done.startswith("applied 0001_jobs\n")
    assert done.endswith(f"the schema is current: version {status['latest']}\n")
    assert empty.ok("migrate", "up") == f"the schema is current: version {status['latest']}\n"
    assert empty.ok("migrate", "plan").startswith("nothing to do: ")
    status = json.loads(empty.ok("migrate", "status", "--json"))
    assert (status["current"], status["version"], status["functions"]) == (True, status["latest"], [])
    assert status["migrations"][0]["applied_at"].endswith("Z")
    assert (
        json.loads(empty.ok("migrate", "up", "--json")) == status == json.loads(empty.ok("migrate", "plan", "--json"))
    )


def test_status_as_text(empty: Shop) -> None:
    before = empty("migrate", "status")
    assert before.stdout.splitlines()[:2] == ["VERSION\tNAME\tSTATE\tAPPLIED", "0001\tjobs\tpending\t"]
    assert "run `migrate up`" in before.stderr
    empty.ok("migrate", "up")
    after = empty("migrate", "status")
    assert after.stdout.splitlines()[1].startswith("0001\tjobs\tapplied\t20")
    assert after.stderr == ""


def test_the_printed_sql_makes_the_schema_on_sqlite(sqlite_shop: Shop) -> None:
    text = sqlite_shop.ok("migrate", "sql")
    with sqlite3.connect(sqlite_shop.folder / "jobs.db") as database:
        database.executescript(text)
    database.close()
    assert json.loads(sqlite_shop.ok("migrate", "status", "--json"))["current"] is True
    nothing = sqlite_shop("migrate", "sql")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr.startswith("nothing is missing")


def test_the_printed_sql_makes_the_schema_on_postgresql(empty_postgres: Shop, dsn: str) -> None:
    text = empty_postgres.ok("migrate", "sql")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())
    assert json.loads(empty_postgres.ok("migrate", "status", "--json"))["current"] is True


def test_other_commands_ask_for_it(empty: Shop) -> None:
    result = empty("jobs", "list")
    assert result.exit_code == 1
    assert "migrate up`" in result.stderr
    assert not (empty.folder / "jobs.db").exists()


def test_a_schema_from_the_future_is_refused_with_both_numbers(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    with sqlite3.connect(sqlite_shop.folder / "jobs.db") as database:
        database.execute(
            "INSERT INTO holdfast_schema_migrations"
            " SELECT 99, name, checksum, 0 FROM holdfast_schema_migrations WHERE version = 1"
        )
    database.close()
    for args in (("migrate", "status"), ("migrate", "up"), ("jobs", "list")):
        result = sqlite_shop(*args)
        assert result.exit_code == 1
        assert "version 99" in result.stderr
        assert f"knows versions up to {len(list(MIGRATIONS.glob('*.sql')))}" in result.stderr


def test_views_for_the_queries_of_the_seeds(empty_postgres: Shop, dsn: str) -> None:
    assert "function seed_views" not in empty_postgres.ok("migrate", "plan")
    assert empty_postgres.ok("migrate", "plan", "--seed-views").endswith("would apply function seed_views\n")
    assert f'CREATE OR REPLACE VIEW "{empty_postgres.schema}_seed".queue_job' in empty_postgres.ok(
        "migrate", "sql", "--seed-views"
    )
    assert "applied function seed_views" in empty_postgres.ok("migrate", "up", "--seed-views")
    assert empty_postgres.ok("migrate", "plan", "--seed-views").startswith("nothing to do: ")
    with psycopg.connect(dsn) as connection:
        views = connection.execute(f'TABLE "{empty_postgres.schema}_seed".tasks').fetchall()
        assert views == []
        connection.execute(f'DROP SCHEMA "{empty_postgres.schema}_seed" CASCADE')


def test_sqlite_has_no_such_views(sqlite_shop: Shop) -> None:
    for verb in ("plan", "sql", "up"):
        result = sqlite_shop("migrate", verb, "--seed-views")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "expected a store on PostgreSQL" in result.stderr
    assert not (sqlite_shop.folder / "jobs.db").exists()
