"""Claim, finish, promote and rescue keep their plans whatever the statistics say (F20, F21).

The statistics are taken on the empty table and never again. Figures in milliseconds are printed; they are asserted by
`make chaos` only.
"""

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from holdfast.stores.postgres import lists
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.jobs import COUNT_CAP
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema, quoted
from holdfast.stores.values import JobFilter
from holdfast.transitions import completed
from tests.schema.plans import Explained, Statement, explain, explain_query, forget_statistics, load_statements
from tests.support.connections import expire, register, request, show
from tests.support.sizes import CHAOS, size

QUEUED = size(20_000, 1_000_000)
SCHEDULED = size(20_000, 1_000_000)
HELD = size(3_000, 300_000)
FINISHED = size(20_000, 100_000)
RUNNING = 200
BUFFERS = {"claim_jobs_by_id": 300}  # a claim of ten reads fewer than 200; by id it looks each of them up twice
FEW_BUFFERS = 200
EXECUTIONS = 7
STATEMENTS: dict[str, Statement] = {statement.name: statement for statement in load_statements()}
INDEXES = {
    "claim_jobs": {"jobs_ready", "jobs_pkey"},
    "claim_jobs_by_id": {"jobs_pkey"},
    "claim_gated": {"jobs_ready"},
    "finish_jobs": {"jobs_pkey"},
    "lane_heads": {"jobs_ready"},
    "promote_jobs": {"jobs_due"},
    "promote_held": {"jobs_deferred"},
    "rescue_jobs": {"jobs_running"},
}

_ROWS = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, claim, worker,
    claim_batch, claimed_at, limit_key, enqueued_seq
)
SELECT
    $1::bigint + n, 'work', 'default', 5, $3::text,
    CASE WHEN $3 IN ('queued', 'running') THEN nextval('holdfast.position_seq') END, '{}',
    now() + n * interval '1 millisecond' - interval '1 hour', now() - interval '1 day' + n * interval '1 millisecond',
    5, 3, CASE $3 WHEN 'running' THEN 1 ELSE 0 END, CASE $3 WHEN 'running' THEN $4::bigint END, 1,
    CASE $3 WHEN 'running' THEN now() END, CASE $3 WHEN 'held' THEN 'tenant a' END, n
FROM generate_series(1, $2::int) AS n
"""
_FINISHED = """
INSERT INTO holdfast.history (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, claim, life,
    attempt, crashes, delete_at, finished_at
)
SELECT
    $1::bigint + n, 'work', 'default', 5, CASE n % 10 WHEN 0 THEN 'failed' ELSE 'completed' END, n, '{}', now(),
    now() - interval '1 day' + n * interval '1 millisecond', 5, 3, 1, 1, 1, 0,
    now() + (1 + n % 29) * interval '1 day', now()
FROM generate_series(1, $2::int) AS n
"""
FIRST = {"held": 10**9, "queued": 2 * 10**9, "scheduled": 3 * 10**9, "running": 4 * 10**9, "finished": 5 * 10**9}


async def _load(dsn: str, schema: str) -> int:
    """Migrate, take statistics of nothing, then fill the tables; return the worker of the running jobs."""
    store = PostgresStore(dsn, schema=schema, deadline=60)
    await store.migrator.up()
    await store.open()
    connection = await asyncpg.connect(dsn)
    await forget_statistics(connection, schema, "jobs")
    await connection.execute(in_schema("ANALYZE holdfast.history; ANALYZE holdfast.workers", schema))
    worker = await register(store)
    insert = in_schema(_ROWS, schema)
    for state, count in (("held", HELD), ("queued", QUEUED), ("scheduled", SCHEDULED), ("running", RUNNING)):
        await connection.execute(insert, FIRST[state], count, state, worker)
    await connection.execute(in_schema(_FINISHED, schema), FIRST["finished"], FINISHED)
    await connection.close()
    await store.close()
    return worker


@pytest.fixture(scope="module")
def full(dsn: str) -> Iterator[tuple[str, int]]:
    """Give a schema with many jobs whose statistics say that there are none, and the worker of the running ones."""
    name = f"hf_{uuid.uuid4().hex[:12]}"
    begin = time.monotonic()
    worker = asyncio.run(_load(dsn, name))
    show(f"loaded {HELD + QUEUED + SCHEDULED + FINISHED:,} jobs in {time.monotonic() - begin:.1f} s")
    yield name, worker
    asyncio.run(_drop(dsn, name))


async def _drop(dsn: str, name: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
    await connection.close()


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    connection.terminate()


@pytest.fixture
async def busy(dsn: str, full: tuple[str, int]) -> AsyncIterator[PostgresStore]:
    """Give a store on the full schema with one connection, so that each statement is prepared once."""
    store = PostgresStore(dsn, schema=full[0], pool_size=1, deadline=60)
    await store.open()
    yield store
    await store.close()


def values(worker: int, jobs: int) -> dict[str, str]:
    """Spell the variables of all statements as SQL."""
    return {
        "p_worker": str(worker),
        "p_batch": "77",
        "p_limit": str(jobs),
        "v_ids": "ARRAY[]::bigint[]",
        "p_queues": "ARRAY['default', 'other', 'default']",
        "p_priorities": "ARRAY[5, 5, 3]::smallint[]",
        "p_limits": f"ARRAY[{jobs}, {jobs}, {jobs}]",
        "p_afters": "ARRAY[0, 0, 0]::bigint[]",
        "p_ids": _ids("running", jobs),
        "p_claims": f"array_fill(1, ARRAY[{jobs}])",
        "p_verbs": f"array_fill('complete'::text, ARRAY[{jobs}])",
        "p_states": f"array_fill('completed'::text, ARRAY[{jobs}])",
        **dict.fromkeys(("p_delays", "p_results", "p_error_classes", "p_errors", "p_tracebacks"), "'{}'"),
        **dict.fromkeys(("p_fingerprints", "p_started_agos", "p_extras"), "'{}'"),
        "v_now": "now()",
        "v_from_start": "false",
        "v_claimed": "'{}'",
    }


def _ids(state: str, jobs: int) -> str:
    return f"ARRAY{[FIRST[state] + n for n in range(1, jobs + 1)]}::bigint[]"


def test_every_marked_statement_is_checked() -> None:
    assert set(STATEMENTS) == set(INDEXES)


@pytest.mark.parametrize("name", list(INDEXES))
async def test_a_statement_keeps_its_plan(full: tuple[str, int], session: Connection, name: str) -> None:
    """The held jobs of one key were all there before the first queued one; a claim does not even see them (F21)."""
    schema, worker = full
    held = in_schema("SELECT count(*) FROM holdfast.jobs WHERE state = 'held'", schema)
    assert await session.fetchval(held) == HELD
    given = values(worker, 10)
    if name == "claim_jobs_by_id":
        given["p_ids"] = _ids("queued", 10)
    found = await explain(session, schema, STATEMENTS[name], given, run=True)
    show(f"{name} of 10: {found.buffers} buffers, {found.milliseconds:.2f} ms")
    assert_indexed(found, "jobs", INDEXES[name])
    assert found.buffers < BUFFERS.get(name, FEW_BUFFERS)


def assert_indexed(found: Explained, relation: str, indexes: set[str]) -> None:
    """No sequential or bitmap scan and no sort of the table, and exactly the expected indexes."""
    scans = found.scans(relation)
    assert {node.kind for node in scans} <= {"Index Scan", "Index Only Scan"}
    assert {node.index_name for node in scans} == indexes
    assert found.sorts_of(relation) == []


async def test_without_its_switches_a_claim_loses_its_plan(full: tuple[str, int], session: Connection) -> None:
    """What the rule is for: the natural form of a claim, planned by statistics of an empty table."""
    natural = Statement(
        "natural",
        """
        WITH picked AS (
            SELECT j.id FROM holdfast.jobs AS j
            WHERE j.queue = ANY ($1) AND j.state = 'queued' ORDER BY j.priority, j.position LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        UPDATE holdfast.jobs AS j SET state = 'running' FROM picked WHERE j.id = picked.id
        """,
        ("p_queues", "p_limit"),
        ("text[]", "integer"),
        (),
    )
    found = await explain(session, full[0], natural, values(full[1], 10), run=True)
    show(f"the natural claim of 10: {found.buffers} buffers, {found.milliseconds:.2f} ms")
    assert found.sorts_of("jobs") or found.buffers > FEW_BUFFERS


async def _sequential_scans(connection: Connection, schema: str) -> int:
    sql = "SELECT seq_scan FROM pg_stat_user_tables WHERE relid = 'holdfast.jobs'::regclass"
    return int(await connection.fetchval(in_schema(sql, schema)))


async def _flush(store: PostgresStore) -> None:
    """Let the store's session report what it has read."""
    await store.pool.fetch("SELECT pg_stat_force_next_flush()")
    await store.pool.fetch("SELECT 1")


async def _timed(figures: dict[str, list[float]], name: str, call: Any) -> Any:
    begin = time.perf_counter()
    answer = await call
    figures.setdefault(name, []).append((time.perf_counter() - begin) * 1e3)
    return answer


async def test_no_verb_reads_the_whole_table(busy: PostgresStore, session: Connection) -> None:
    """Seven executions and more on one prepared statement each, by the counters that the server keeps."""
    await _flush(busy)
    before = await _sequential_scans(session, busy.schema)
    figures: dict[str, list[float]] = {}
    worker = await register(busy)
    for _ in range(EXECUTIONS if not CHAOS else 50):
        await _timed(figures, "promote 100", busy.promote_jobs(100))
        claimed = await _timed(figures, "claim 10", busy.claim_jobs(request(worker, 10)))
        assert len(claimed) == 10
        more = await busy.claim_jobs(request(worker, 90))
        ends = [completed(job.id, job.claim) for job in (*claimed, *more)]
        worked = await _timed(figures, "finish 100", busy.finish_jobs(ends))
        assert len(worked.finishes) == 100
        both = await _timed(figures, "finish 0 and claim 10", busy.finish_jobs([], claim=request(worker, 10)))
        ends = [completed(job.id, job.claim) for job in both.claimed]
        await _timed(figures, "finish 10 and claim 10", busy.finish_jobs(ends, claim=request(worker, 10)))
        await expire(session, busy.schema, [worker])
        rescued = await _timed(figures, "rescue", busy.rescue_jobs(100))
        assert len(rescued.requeued) >= 10
        worker = await register(busy)
        await _timed(figures, "rescue of nothing", busy.rescue_jobs(100))
    await _flush(busy)
    for name, took in figures.items():
        show(f"{name}: median {statistics.median(took):.2f} ms, longest {max(took):.2f} ms")
    assert await _sequential_scans(session, busy.schema) == before
    if CHAOS:
        assert statistics.median(figures["claim 10"]) < 2.0


async def _entries_read(connection: Connection, schema: str) -> dict[str, int]:
    sql = "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE relid = 'holdfast.jobs'::regclass"
    return {row[0]: row[1] for row in await connection.fetch(in_schema(sql, schema))}


async def test_waits_and_reasons_are_read_by_indexes(busy: PostgresStore, session: Connection) -> None:
    await _flush(busy)
    before = await _sequential_scans(session, busy.schema)
    figures: dict[str, list[float]] = {}
    for _ in range(EXECUTIONS):
        await _timed(figures, "heads of the lanes", busy.lane_heads(["default", "other"]))
        waits = await _timed(figures, "waits", busy.read_waits(["default", "other"], 300_000))
        assert waits[0].oldest_ms > 0
        for state, last in (("queued", QUEUED), ("held", HELD), ("scheduled", SCHEDULED)):  # which no test has touched
            found = await _timed(figures, f"why, {state}", busy.explain_job(FIRST[state] + last))
            assert found is not None
            assert found.job.state == state
    await _flush(busy)
    for name, taken in figures.items():
        show(f"{name}: median {statistics.median(taken):.2f} ms")
    assert await _sequential_scans(session, busy.schema) == before


async def test_the_lanes_are_measured_by_bounded_reads(busy: PostgresStore, session: Connection) -> None:
    await _flush(busy)
    before, read_before = await _sequential_scans(session, busy.schema), await _entries_read(session, busy.schema)
    figures: dict[str, list[float]] = {}
    for _ in range(EXECUTIONS):
        lanes = await _timed(figures, "measure", busy.measure_lanes())
        assert {gauge.state: gauge.capped for gauge in lanes if gauge.jobs} == {
            "queued": True,
            "scheduled": True,
            "running": False,
            "held": HELD > COUNT_CAP,
        }
    await _flush(busy)
    show(f"measure the lanes: median {statistics.median(figures['measure']):.2f} ms")
    assert await _sequential_scans(session, busy.schema) == before
    read = {name: entries - read_before[name] for name, entries in (await _entries_read(session, busy.schema)).items()}
    assert {name for name, entries in read.items() if entries} == {
        "jobs_ready",
        "jobs_due",
        "jobs_running",
        "jobs_parked",
    }
    # Entries of jobs that have moved on since are read over until a vacuum removes them.
    assert max(read.values()) <= EXECUTIONS * COUNT_CAP * 1.1


@pytest.mark.parametrize("later", [False, True], ids=["newest", "next page"])
async def test_a_page_of_a_list_is_read_in_order(
    full: tuple[str, int], session: Connection, busy: PostgresStore, later: bool
) -> None:
    after = (await busy.list_jobs(JobFilter(), limit=50)).next if later else None
    await session.execute(in_schema("ANALYZE holdfast.history", full[0]))
    sql, args = lists.query(JobFilter(), 51, after)
    found = await explain_query(session, in_schema(sql, full[0]), *args)
    show(f"a page of 50: {found.buffers} buffers, {found.milliseconds:.2f} ms")
    assert "Merge Append" in {node.kind for node in found.plan.walk()}
    assert {node.index_name for node in found.scans("jobs")} == {"jobs_listed"}
    # A week without rows may be read in any way; of live and finished jobs at most a page is read and sorted.
    assert max(node.rows for node in found.plan.walk()) <= 2 * 51
    assert found.buffers < 2 * FEW_BUFFERS


async def test_one_job_is_found_by_its_id_alone(full: tuple[str, int], session: Connection) -> None:
    sql = in_schema("SELECT * FROM holdfast.all_jobs WHERE id = ANY ($1::bigint[])", full[0])
    for job_id in (FIRST["queued"] + 5, FIRST["finished"] + 5):
        found = await explain_query(session, sql, [job_id])
        show(f"one job by its id: {found.buffers} buffers, {found.milliseconds:.2f} ms")
        assert not [node for node in found.scans("jobs") if node.kind == "Seq Scan"]
        assert found.buffers < FEW_BUFFERS
