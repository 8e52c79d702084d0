"""Firing, announcing and forgetting read indexes, on both stores, however full the tables are."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import QUERIES
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.store import SqliteStore
from tests.schema.plans import Explained, explain_query, forget_statistics
from tests.support.sizes import size

JOBS = size(20_000, 500_000)
FIRES = size(20_000, 500_000)
LANES = 5
OF_SCHEDULES = 100
CAP = 1_000
FEW_BUFFERS = 200

_JOBS = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, announced_at,
    schedule
)
SELECT
    n, 'work', 'default', n % $2::int, 'queued', n, '{}', now() - interval '1 hour', now(), 5, 3,
    CASE WHEN n % 3 = 0 THEN now() END, CASE WHEN n <= 100 THEN 'nightly' END
FROM generate_series(1, $1::int) AS n
"""
_FIRES = """
INSERT INTO holdfast.fires (schedule, nominal, outcome, at, expires_at)
SELECT
    'schedule ' || n % 10, now() - n * interval '1 second', 'missed', now(), now() + (n - 100) * interval '1 second'
FROM generate_series(1, $1::int) AS n
"""


@pytest.fixture
async def session(dsn: str, postgres: PostgresStore) -> AsyncIterator[Connection]:
    """Give a connection to a schema that has many jobs and fires, of which the statistics know nothing."""
    connection = await asyncpg.connect(dsn)
    await forget_statistics(connection, postgres.schema, "jobs", "fires")
    await connection.execute(in_schema(_JOBS, postgres.schema), JOBS, LANES)
    await connection.execute(in_schema(_FIRES, postgres.schema), FIRES)
    yield connection
    connection.terminate()


async def explained(session: Connection, store: PostgresStore, query: str, *args: object) -> Explained:
    """Explain a query under the plan that a prepared statement comes to in the end."""
    transaction = session.transaction()
    await transaction.start()
    await session.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    found = await explain_query(session, in_schema(QUERIES[query], store.schema), *args)
    await transaction.rollback()
    return found


@pytest.mark.parametrize(
    "query, args, index",
    [
        ("jobs_of_schedule", ("nightly",), "jobs_schedule"),
        ("name_schedule", (17, "nightly", datetime(2026, 1, 1, tzinfo=UTC)), "jobs_pkey"),
        ("mark_announced", ([1, 2, 3],), "jobs_pkey"),
        ("unannounced_jobs", ("default", 3, 5_000, 100), "jobs_ready"),
        ("list_fires", ("schedule 3", 20), "fires_pkey"),
        ("prune_fires", (100,), "fires_expiry"),
    ],
)
async def test_a_query_reads_its_table_by_an_index(
    session: Connection, postgres: PostgresStore, query: str, args: tuple[object, ...], index: str
) -> None:
    found = await explained(session, postgres, query, *args)
    scans = found.scans(index.partition("_")[0])
    assert scans
    assert "Seq Scan" not in {node.kind for node in scans}
    assert index in {node.index_name for node in found.plan.walk()}
    assert max(node.rows for node in found.plan.walk()) <= OF_SCHEDULES + 100
    if query != "prune_fires":  # which writes, too
        assert found.buffers < FEW_BUFFERS


async def test_lanes_are_counted_up_to_a_bound(session: Connection, postgres: PostgresStore) -> None:
    found = await explained(session, postgres, "ready_lanes", CAP)
    scans = found.scans("jobs")
    assert {node.index_name for node in scans} == {"jobs_ready"}
    assert sum(node.rows for node in scans) <= LANES * CAP + LANES + 1
    assert found.sorts_of("jobs") == []


GIVEN = {
    "name": "nightly",
    "nominal": 0,
    "id": 17,
    "ids": "[1,2,3]",
    "now": 0,
    "queue": "default",
    "priority": 3,
    "age_ms": 5_000,
    "limit": 10,
    "cap": CAP,
}


@pytest.mark.parametrize(
    "query, tables",
    [
        ("jobs_of_schedule", ("holdfast_jobs",)),
        ("name_schedule", ("holdfast_jobs",)),
        ("mark_announced", ("holdfast_jobs",)),
        ("ready_lanes", ("holdfast_jobs", "job", "following")),
        ("unannounced_jobs", ("holdfast_jobs",)),
        ("list_fires", ("holdfast_fires",)),
        ("prune_fires", ("holdfast_fires",)),
    ],
)
async def test_a_query_of_sqlite_reads_its_table_by_an_index(
    tmp_path: Path, query: str, tables: tuple[str, ...]
) -> None:
    await SqliteStore(str(tmp_path / "jobs.db")).migrator.up()
    database = sqlite3.connect(tmp_path / "jobs.db")
    steps = [
        row[3] for sql in statements.QUERIES[query] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", GIVEN)
    ]
    database.close()
    reads = [step for step in steps if step.split()[0] in ("SCAN", "SEARCH") and step.split()[1] in tables]
    assert reads
    assert [step for step in reads if "INDEX" not in step and "PRIMARY KEY" not in step] == []
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in steps)
