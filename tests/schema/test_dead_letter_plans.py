"""Failed jobs are found among all finished ones by indexes of their own: nothing grows with what has ended well."""

import asyncpg
import pytest

from holdfast.job import JobState
from holdfast.stores.failures import DeadFilter
from holdfast.stores.postgres import lists
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.sqlite import lists as sqlite_lists
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import JobFilter
from tests.schema.plans import explain_query
from tests.support.connections import show

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


_SPREAD = """
UPDATE holdfast.history SET queue = 'mine' WHERE id = (SELECT min(id) FROM holdfast.history WHERE state = 'failed')
"""
_GROUP_IN_QUEUE = """
INSERT INTO holdfast.dead_letter_queues (queue, id, kind, fingerprint, seen, first_at, last_at, last_job)
VALUES ('mine', '0123456789ab', 'work', 'E@f', 1, now(), now(), 500)
"""
MINE = JobFilter(states=(JobState.FAILED,), kinds=("work",), fingerprint="E@f", queues=("mine",))


async def test_what_is_in_one_queue_is_found_without_reading_the_rest_of_its_group(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    connection = await asyncpg.connect(dsn)
    await connection.execute(in_schema(_FINISHED, schema), FINISHED, 2)  # each second one has failed
    for sql in (_SPREAD, _GROUP, _GROUP_IN_QUEUE, "VACUUM ANALYZE holdfast.history"):
        await connection.execute(in_schema(sql, schema))
    mine: tuple[object, ...] = ([], [], ["mine"], None, None, None, None, False, 10_001, 51)
    found = await explain_query(connection, store.queries["list_dead_letters"], *mine)
    read = [node for node in found.plan.walk() if (node.relation or "").startswith("history")]
    assert {node.kind for node in read if node.rows} == {"Index Only Scan"}
    assert max(node.rows for node in read) == 1, read
    for sql, args in (lists.query(MINE, 51, None), lists.count(MINE, 10_001)):
        found = await explain_query(connection, in_schema(sql, schema), *args)
        assert max(node.rows for node in found.plan.walk()) == 1
    (seen,) = (await store.list_dead_letters(DeadFilter(queues=("mine",)), limit=10)).groups
    assert (seen.seen, seen.left) == (1, 1)
    await connection.close()
    await store.close()


async def test_sqlite_counts_what_is_in_one_queue_by_its_index(sqlite_file: SqliteStore) -> None:
    sql = f"EXPLAIN QUERY PLAN {statements.QUERIES['dead_jobs_left_in'][0]}"
    parameters = {"kind": "work", "fingerprint": "E@f", "queue": "mine", "now": 0, "cap": 10_001}
    plan = await sqlite_file.connection.read(lambda connection, _: connection.execute(sql, parameters).fetchall())
    steps = [step[3] for step in plan if "holdfast_history" in step[3]]
    assert len(steps) == 1
    assert "holdfast_history_dead_queue (kind=? AND error_fingerprint=? AND queue=?)" in steps[0]


@pytest.mark.parametrize(
    "which, index",
    [
        (FAILED, "holdfast_history_failed"),
        (GROUP, "holdfast_history_dead "),
        (MINE, "holdfast_history_dead_queue "),
    ],
    ids=["all", "group", "mine"],
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
