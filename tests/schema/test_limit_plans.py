"""A claim reads little, however many jobs of other keys are held, and no table is read from end to end."""

import time
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from holdfast.stores.limits import LimitRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema, load_queries
from holdfast.transitions import completed
from tests.schema.plans import explain_query, forget_statistics
from tests.support.builders import claim, claim_of, lane, new_job, register
from tests.support.connections import show
from tests.support.sizes import CHAOS, size

HELD = size(3_000, 300_000)
KEYS = 500  # with slots of their own
JOBS = 20
FEW_BUFFERS = 600  # for five jobs: their slots are found, made and taken

_HELD = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, limit_key
)
SELECT
    n, 'work', 'default', 5, 'held', n, '{"tenant": "a"}', now(), now(), 5, 3, 'tenants/a'
FROM generate_series(1, $1::int) AS n
"""
_SLOTS = """
INSERT INTO holdfast.slots (limit_name, key, n, job_id, claim, worker, taken_at)
SELECT 'tenants', 'key ' || k, n, CASE WHEN n = 1 THEN k END, CASE WHEN n = 1 THEN 1 END, 1, now()
FROM generate_series(1, $1::int) AS k, generate_series(1, 3) AS n
"""
_KEYS = """
INSERT INTO holdfast.limit_keys (limit_name, key, throttled_until, seen_at)
SELECT 'tenants', 'key ' || n, now() + interval '1 hour', now() - n * interval '1 second'
FROM generate_series(1, 10000) AS n
"""
_SCANS = """
SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('jobs', 'slots', 'limit_keys')
"""


@pytest.fixture
async def session(dsn: str, postgres: PostgresStore) -> AsyncIterator[Connection]:
    """Give a connection to a schema with many held jobs of one tenant, of which the statistics know nothing."""
    connection = await asyncpg.connect(dsn)
    await forget_statistics(connection, postgres.schema, "jobs", "slots")
    limit = LimitRow(name="tenants", queue="default", path=("payload", "tenant"), concurrency=3)
    await postgres.define_limits([limit], ["default"])
    await connection.execute(in_schema(_HELD, postgres.schema), HELD)
    await connection.execute(in_schema("SELECT setval('holdfast.position_seq', $1)", postgres.schema), HELD + 1)
    await connection.execute(in_schema(_SLOTS, postgres.schema), KEYS)
    yield connection
    connection.terminate()


async def scans(session: Connection, store: PostgresStore) -> dict[str, int]:
    """Count how often tables were read from end to end."""
    return {row["relname"]: row["seq_scan"] for row in await session.fetch(_SCANS, store.schema)}


async def buffers(session: Connection, store: PostgresStore, worker: int, batch: int, jobs: int) -> int:
    """Count the pages that a claim reads, with everything that it calls."""
    sql = f"SELECT * FROM holdfast.claim_jobs({worker}, {batch}, {jobs}, '{{default}}', '{{5}}', '{{{jobs}}}', '{{0}}')"
    found = await session.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {in_schema(sql, store.schema)}")
    (answer,) = msgspec.json.decode(found)
    plan = answer["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_held_jobs_of_one_tenant_do_not_delay_another(session: Connection, postgres: PostgresStore) -> None:
    store = postgres
    await session.execute("SELECT pg_stat_force_next_flush()")
    before = await scans(session, store)
    ids = await store.take_ids(JOBS)
    await store.insert_jobs([new_job(job_id, payload=f'{{"tenant": "b{n}"}}') for n, job_id in enumerate(ids)])
    worker = await register(store)
    await buffers(session, store, worker, 1, 5)  # in which the statements are planned
    read = await buffers(session, store, worker, 2, 5)
    begin = time.perf_counter()
    taken = await claim(store, worker, limit=10)
    took_ms = (time.perf_counter() - begin) * 1_000
    show(f"5 jobs beside {HELD:,} held ones: {read} buffers; 10 in {took_ms:.1f} ms")
    assert [job.id for job in taken] == ids[10:]
    assert read < FEW_BUFFERS
    if CHAOS:
        assert took_ms < 50
    worked = await store.finish_jobs(
        [completed(job.id, job.claim) for job in taken], claim=claim_of(worker, lane(after=ids[-1]))
    )
    assert worked.claimed == []
    await store.pool.fetch("SELECT pg_stat_force_next_flush()")
    await store.pool.fetch("SELECT 1")
    assert await scans(session, store) == before


async def test_of_the_keys_of_limits_only_those_used_last_are_read(
    session: Connection, postgres: PostgresStore
) -> None:
    row = LimitRow(name="tenants", queue="default", path=("payload", "tenant"), throttle_us=1, rate_us=1, rate_burst=1)
    await postgres.define_limits([row], ["default"])
    await session.execute(in_schema(_KEYS, postgres.schema))
    await session.execute(in_schema("ANALYZE holdfast.limit_keys", postgres.schema))
    sql = in_schema(load_queries("holdfast.stores.postgres")["limit_buckets"], postgres.schema)

    async def read(name: str | None, key: str | None) -> list[tuple[str | None, int]]:
        found = await explain_query(session, sql, name, key)
        return [(node.index_name, node.rows) for node in found.scans("limit_keys") if node.rows]

    for mode in ("force_custom_plan", "force_generic_plan"):
        await session.execute(f"SET plan_cache_mode = {mode}")
        assert await read(None, None) == [("limit_keys_seen", 1_000)], mode
        assert await read("tenants", "key 7") == [("limit_keys_pkey", 1)], mode
