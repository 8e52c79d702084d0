"""Millions of rows in a PostgreSQL schema, of the shape that the store's own verbs leave, by one statement per part."""

from collections.abc import Iterator

from benchmarks.scale.place import Place, connected
from holdfast.stores.sql import in_schema

_CHUNK = 500_000

# Finished over the days for which such an end is kept, the first row longest ago; one in ten failed.
_FINISHED = """
INSERT INTO holdfast.history (
    id, kind, queue, priority, state, position, payload, tags, run_at, enqueued_at, claim, life, attempt, max_attempts,
    crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at, error_class, error,
    error_fingerprint, delete_at, finished_at, result
)
SELECT
    store.tag + n, 'work_' || n % 20, 'default', 5, past.state, n, jsonb_build_object('number', n),
    CASE WHEN n % 10 = 5 THEN jsonb_build_object('tenant', 't' || n % 1000) END,
    past.ended - interval '2 s', past.ended - interval '2 s', 1, 1, 1, 5, 0, 3, 3600000, 1, n / 100,
    past.ended - interval '1 s', past.ended - interval '1 s',
    CASE past.state WHEN 'failed' THEN 'ValueError' END, CASE past.state WHEN 'failed' THEN 'no such page' END,
    CASE past.state WHEN 'failed' THEN 'ValueError:' || n % 500 END, past.ended + past.kept, past.ended, 'null'
FROM generate_series($1::bigint, $2::bigint) AS n
CROSS JOIN (SELECT value::bigint << 48 AS tag FROM holdfast.meta WHERE key = 'store_tag') AS store
CROSS JOIN LATERAL (
    SELECT
        CASE n % 10 WHEN 0 THEN 'failed' ELSE 'completed' END AS state,
        CASE n % 10 WHEN 0 THEN interval '30 days' ELSE interval '7 days' END AS kept
) AS outcome
CROSS JOIN LATERAL (
    SELECT
        outcome.state, outcome.kept,
        -- An hour short of its end, so that nothing expires during the run.
        now() - (outcome.kept - interval '1 hour') * (1 - n / $3::float8) AS ended
) AS past
"""
_LIVE = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, timeout_ms
)
SELECT
    store.tag + $1::bigint + n, 'work', 'default', 5, $4::text, CASE $4 WHEN 'queued' THEN n END,
    jsonb_build_object('number', n - 1),
    now() + CASE $4 WHEN 'scheduled' THEN interval '1 day' ELSE interval '-1 minute' END + n * interval '1 microsecond',
    now() - interval '1 minute' + n * interval '1 microsecond', 5, 3, 3600000
FROM generate_series($2::bigint, $3::bigint) AS n
CROSS JOIN (SELECT value::bigint << 48 AS tag FROM holdfast.meta WHERE key = 'store_tag') AS store
"""
# Ids come in blocks of 64.
_SEQUENCES = """
SELECT setval('holdfast.job_id_seq', ($1::bigint / 64 + 2) * 64), setval('holdfast.position_seq', $1::bigint + 1)
"""
_WEEK = """
SELECT
    'history_w' || to_char(ended, 'YYYYMMDD') AS name,
    ended AT TIME ZONE 'UTC' AS since,
    (ended + interval '7 days') AT TIME ZONE 'UTC' AS until
FROM (SELECT date_trunc('week', holdfast.clock() AT TIME ZONE 'UTC') - interval '14 days' AS ended) AS week
"""


def chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Cut a number of rows, counted from one, into parts that are one commit each."""
    for first in range(1, rows + 1, _CHUNK):
        yield first, min(first + _CHUNK - 1, rows)


async def load(place: Place, queued: int, scheduled: int, finished: int) -> None:
    """Fill a schema that has no jobs."""
    async with connected(place) as connection:
        for first, last in chunks(finished):
            await connection.execute(in_schema(_FINISHED, place.schema), first, last, finished)
        begin = finished
        for state, count in (("queued", queued), ("scheduled", scheduled)):
            for first, last in chunks(count):
                await connection.execute(in_schema(_LIVE, place.schema), begin, first, last, state)
            begin += count
        await connection.execute(in_schema(_SEQUENCES, place.schema), begin)


async def load_expired_week(place: Place, rows: int) -> None:
    """Attach a week of history that ended a while ago, full of rows."""
    async with connected(place) as connection:
        name, since, until = (await connection.fetch(in_schema(_WEEK, place.schema)))[0]
        week = in_schema(f"holdfast.{name}", place.schema)
        history = in_schema("holdfast.history", place.schema)
        await connection.execute(f"CREATE TABLE {week} (LIKE {history} INCLUDING CONSTRAINTS)")
        await connection.execute(
            f"ALTER TABLE {history} ATTACH PARTITION {week} FOR VALUES FROM ('{since}') TO ('{until}')"
        )
        columns = "id, kind, queue, priority, state, payload, run_at, enqueued_at, claim, life, attempt, max_attempts"
        await connection.execute(
            f"""
            INSERT INTO {history} ({columns}, crashes, max_crashes, delete_at, finished_at, result)
            SELECT n, 'work', 'default', 5, 'completed', '{{}}', $1, $1, 1, 1, 1, 5, 0, 3,
                $1::timestamptz + n * interval '1 microsecond', $1, 'null'
            FROM generate_series(1, $2::bigint) AS n
            """,
            since,
            rows,
        )


async def settle(place: Place) -> None:
    """Leave statistics, the map of visible pages and the disk as autovacuum and a checkpoint leave them."""
    async with connected(place) as connection:
        for table in ("jobs", "history"):
            await connection.execute(in_schema(f"VACUUM (ANALYZE) holdfast.{table}", place.schema))
        await connection.execute("CHECKPOINT")
