"""Searches read windows of an index in its order, whatever the statistics say; counts end at their cap."""

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import asyncpg
import pytest

from holdfast.filtering import parse
from holdfast.job import JobState
from holdfast.public_id import encode
from holdfast.stores.postgres import searching
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.searching import COUNTING_WINDOW
from holdfast.stores.sql import in_schema
from holdfast.stores.sqlite import searching as sqlite_searching
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Counted
from tests.schema.plans import explain_query
from tests.support.connections import show
from tests.support.sizes import size

FINISHED = size(30_000, 300_000)
LIVE = 1_000
WINDOW = 256
WEEKS = 12  # at most, and each stream reads one row of each to begin with
_FINISHED = """
INSERT INTO holdfast.history (
    id, kind, queue, priority, state, position, payload, tags, actor, unique_key, schedule, run_at, enqueued_at,
    max_attempts, max_crashes, claim, life, attempt, crashes, delete_at, finished_at, error_class, error_fingerprint,
    parent, origin
)
SELECT
    n, 'work_' || n % 20, (ARRAY['default', 'high', 'bulk', 'mail'])[1 + n % 4], 5,
    CASE WHEN n % 10 = 0 THEN 'failed' WHEN n % 10 = 1 THEN 'cancelled' ELSE 'completed' END, n,
    jsonb_build_object('n', n), jsonb_build_object('tenant', 't' || n % 3, 'file', 'f' || n % 1000),
    'actor' || n % 5, 'u' || n % 5, 's' || n % 5, now(), now() - interval '1 day' + n * interval '1 millisecond', 5, 3,
    1, 1, 1, 0, now() + (1 + n % 20) * interval '1 day', now(), CASE n % 10 WHEN 0 THEN 'app.E' END,
    CASE n % 10 WHEN 0 THEN 'app.E@f' END, 1 + n % 5, 1 + n % 5
FROM generate_series(1, $1::int) AS n
"""
_LIVE = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, parent, origin
)
SELECT
    1000000000 + n, 'work_' || n % 20, 'default', 5, 'queued', n, '{}', now(), now(), 5, 3,
    CASE n % 2 WHEN 0 THEN 1 + n % 5 END, CASE n % 2 WHEN 0 THEN 1 + n % 5 END
FROM generate_series(1, $1::int) AS n
"""
# The filter, and the columns of the index that finished jobs are read along.
WAYS = {
    "": "enqueued_at_id",
    "since:2d state:completed": "enqueued_at_id",
    "kind:work_7": "kind_enqueued_at_id",
    "kind:nothing": "kind_enqueued_at_id",
    "kind:work_7,work_8,nothing": "kind_enqueued_at_id",
    "queue:default": "queue_enqueued_at_id",
    "queue:nothing": "queue_enqueued_at_id",
    "state:failed": "enqueued_at_id",
    "state:cancelled,completed_with_errors": "state_enqueued_at_id",
    "state:cancelled kind:work_11": "kind_enqueued_at_id",
    "state:failed queue:nothing": "queue_enqueued_at_id",
    "error:E": "enqueued_at_id",
    "error:app.E@f": "error_fingerprint_enqueued_at_id",
    "actor:actor3": "actor_enqueued_at_id",
    "actor:nobody": "actor_enqueued_at_id",
    "unique:u1": "unique_key_enqueued_at_id",
    "schedule:s1": "schedule_enqueued_at_id",
    f"parent:{encode(2)}": "parent_enqueued_at_id",
    f"parent:{encode(2)} queue:default state:failed": "parent_enqueued_at_id",
    f"parent:{encode(9)}": "parent_enqueued_at_id",
    f"origin:{encode(2)}": "origin_enqueued_at_id",
    f"origin:{encode(9)}": "origin_enqueued_at_id",
    "kind:work_7 nosuchword": "kind_enqueued_at_id",
    "args.n=5": "enqueued_at_id",
}


@pytest.fixture
async def full(dsn: str, schema: str) -> PostgresStore:
    """Give a store whose statistics were taken before it was filled."""
    connection = await asyncpg.connect(dsn)
    for table in ("jobs", "history"):
        await connection.execute(in_schema(f"ANALYZE holdfast.{table}", schema))
    await connection.execute(in_schema(_FINISHED, schema), FINISHED)
    await connection.execute(in_schema(_LIVE, schema), LIVE)
    await connection.close()
    return PostgresStore(dsn, schema=schema)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_window_reads_its_index_in_order_and_no_more(
    dsn: str, schema: str, full: PostgresStore, mode: str
) -> None:
    connection = await asyncpg.connect(dsn)
    for is_analysed in (False, True):
        if is_analysed:
            await connection.execute(in_schema("ANALYZE holdfast.history", schema))
        for text, columns in WAYS.items():
            half = searching.streams(parse(text, datetime.now(UTC)).where)[-1].query
            async with connection.transaction():
                await connection.execute(f"{searching._CALM}; {searching._IN_ORDER.format('off')}")
                await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
                sql, args = searching.looking(half, None, WINDOW, 51)
                found = await explain_query(connection, in_schema(sql, schema), *args)
            scans = [node for node in found.plan.walk() if (node.relation or "").startswith("history") and node.rows]
            assert all(node.index_name and columns in node.index_name for node in scans), (text, scans)
            streams = max(1, len(half.values))
            assert sum(node.rows for node in scans) <= streams * (WINDOW + WEEKS), text
    await connection.close()


@pytest.mark.parametrize("term", ["parent", "origin"])
async def test_what_came_of_a_job_is_found_among_live_ones_by_its_index(
    dsn: str, schema: str, full: PostgresStore, term: str
) -> None:
    assert full.schema == schema
    connection = await asyncpg.connect(dsn)
    half = searching.streams(parse(f"{term}:{encode(2)}", datetime.now(UTC)).where)[0].query
    async with connection.transaction():
        await connection.execute(f"{searching._CALM}; {searching._IN_ORDER.format('off')}")
        sql, args = searching.looking(half, None, WINDOW, 51)
        found = await explain_query(connection, in_schema(sql, schema), *args)
    scans = [node for node in found.plan.walk() if node.relation == "jobs"]
    assert [node.index_name for node in scans] == [f"jobs_{term}"]
    assert sum(node.rows for node in scans) == LIVE // 10
    await connection.close()


async def rows_read(connection: Connection, store: PostgresStore) -> int:
    """Count the rows of history that were ever read, by whatever way."""
    await store.pool.fetch("SELECT pg_stat_force_next_flush()")
    await store.pool.fetch("SELECT 1")
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return int(
        await connection.fetchval(
            "SELECT sum(seq_tup_read + COALESCE(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
            " WHERE schemaname = $1 AND relname LIKE 'history%'",
            store.schema,
        )
    )


async def test_counts_read_no_more_than_their_cap(dsn: str, full: PostgresStore) -> None:
    await full.open()
    connection = await asyncpg.connect(dsn)
    for text in ("", "state:completed", "state:failed", "kind:work_1,work_3", "queue:default"):
        before = await rows_read(connection, full)
        counted = await full.count_found(parse(text, datetime.now(UTC)).where, most=1_001, budget_ms=60_000)
        entries = await rows_read(connection, full) - before
        show(f"count {text!r}: {entries:,} rows of history read")
        assert counted == Counted(1_001, capped=True)
        assert entries <= 2 * COUNTING_WINDOW + WEEKS, text
    await connection.close()
    await full.close()


async def test_a_tag_that_many_jobs_have_leaves_the_way_to_what_is_rarer(dsn: str, full: PostgresStore) -> None:
    await full.open()
    connection = await asyncpg.connect(dsn)
    which = parse("tag:tenant=t1 state:cancelled", datetime.now(UTC)).where
    before = await rows_read(connection, full)
    assert await full.count_found(which, budget_ms=60_000) == Counted(FINISHED // 30, capped=False)
    cancelled = FINISHED // 10
    windows = 1 + cancelled // COUNTING_WINDOW
    assert await rows_read(connection, full) - before <= searching._RARE + 1 + cancelled + windows * WEEKS
    found = await full.search_jobs(which, limit=50, budget_ms=60_000)
    assert {(job.state, job.tags["tenant"]) for job in found.jobs} == {(JobState.CANCELLED, "t1")}
    assert len(found.jobs) == 50
    await connection.close()
    await full.close()


async def test_sqlite_reads_windows_in_the_order_of_an_index(sqlite_file: SqliteStore) -> None:
    for text in WAYS:
        for stream in sqlite_searching._streams(parse(text, datetime.now(UTC)).where, 0):
            half = stream.query
            if stream.is_whole:
                continue
            given = {**half.given, "window": 256, "wanted": 51}
            plan = await sqlite_file.connection.read(partial(_explained, sqlite_searching.looking(half, None), given))
            steps = [step[3] for step in plan]
            assert [step for step in steps if "job USING" in step and "INDEX holdfast_" in step], (text, steps)
            assert "SCAN job" not in steps, (text, steps)


def _explained(sql: str, given: Mapping[str, object], connection: sqlite3.Connection, _now: int) -> list[Any]:
    return connection.execute(f"EXPLAIN QUERY PLAN {sql}", given).fetchall()
