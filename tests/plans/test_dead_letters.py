"""Failed jobs are found among all finished ones by indexes of their own: nothing grows with what has ended well."""

import asyncpg
import pytest

from holdfast.job import JobState
from holdfast.stores.failures import DeadFilter
from holdfast.stores.postgres import lists
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.sqlite import lists as sqlite_lists
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import JobFilter
from tests.plans.statements import explain_query
from tests.races.making import show

FINISHED, EACH = 10_000, 500  # of which one has failed
FAILED = JobFilter(states=(JobState.FAILED,))
GROUP = JobFilter(states=(JobState.FAILED,), kinds=("work",), fingerprint="E@f")
_FINISHED = """
INSERT INTO holdfast.history (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, claim, life,
    attempt, crashes, delete_at, finished_at, error_class, error_fingerprint
)
SELECT
    n, 'work', 'default', 5, CASE n % $2::int WHEN 0 THEN 'failed' ELSE 'completed' END, n, '{}', now(),
    now() - interval '1 day' + n * interval '1 millisecond', 5, 3, 1, 1, 1, 0, now() + interval '10 days', now(),
    CASE n % $2 WHEN 0 THEN 'E' END, CASE n % $2 WHEN 0 THEN 'E@f' END
FROM generate_series(1, $1::int) AS n
"""
_GROUP = """
INSERT INTO holdfast.dead_letters (id, kind, fingerprint, queue, seen, first_at, last_at, last_job)
VALUES ('0123456789ab', 'work', 'E@f', 'default', 20, now(), now(), 500)
"""


@pytest.mark.parametrize("which", [FAILED, GROUP], ids=["all", "group"])
async def test_failed_jobs_are_listed_and_counted_by_their_index(dsn: str, schema: str, which: JobFilter) -> None:
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    connection = await asyncpg.connect(dsn)
    await connection.execute(in_schema(_FINISHED, schema), FINISHED, EACH)
    await connection.execute(in_schema("VACUUM ANALYZE holdfast.history", schema))
    for sql, args in (lists.query(which, 51, None), lists.count(which, 10_001)):
        found = await explain_query(connection, in_schema(sql, schema), *args)
        show(f"failed jobs among {FINISHED:,}: {found.buffers} buffers, {found.milliseconds:.2f} ms")
        used = {node.index_name for node in found.plan.walk() if node.index_name is not None and node.rows}
        assert used
        for index in used:  # each without jobs that ended well
            described = await connection.fetchval("SELECT indexdef FROM pg_indexes WHERE indexname = $1", index)
            assert "WHERE (state = 'failed'::text)" in described or "WHERE (state <> 'completed'::text)" in described
        assert max(node.rows for node in found.plan.walk()) == FINISHED // EACH
        assert not found.scans("jobs")  # no live job has failed
    assert await store.preview_jobs(which) == FINISHED // EACH
    assert (await store.list_dead_letters(DeadFilter(), limit=10)).groups == []
    await connection.execute(in_schema(_GROUP, schema))
    everything: tuple[object, ...] = ([], [], [], None, None, None, None, False, 10_001, 51)
    found = await explain_query(connection, store.queries["list_dead_letters"], *everything)
    counted = [node for node in found.plan.walk() if (node.relation or "").startswith("history") and node.rows > 1]
    assert {node.kind for node in counted} == {"Index Only Scan"}, "what is left of a group is counted in the index"
    await connection.close()
    await store.close()


@pytest.mark.parametrize(
    "which, index", [(FAILED, "holdfast_history_failed"), (GROUP, "holdfast_history_dead")], ids=["all", "group"]
)
async def test_sqlite_lists_failed_jobs_by_their_index(sqlite_file: SqliteStore, which: JobFilter, index: str) -> None:
    query = sqlite_lists._query("holdfast_finished_jobs", which, None)
    parameters = sqlite_lists.parameters(which, 0, 51, None)
    plan = await sqlite_file.connection.read(
        lambda connection, _: connection.execute(f"EXPLAIN QUERY PLAN {query}", parameters).fetchall()
    )
    steps = [step[3] for step in plan if "holdfast_history" in step[3]]
    assert any(index in step for step in steps), steps
    assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step[3]]
