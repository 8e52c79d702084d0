"""Millions of rows in a SQLite file, of the shape that the store's own verbs leave, while no store has it open."""

import sqlite3
import time
from contextlib import closing
from typing import Any

from benchmarks.scale.place import Place
from benchmarks.scale.postgres_rows import chunks

_DAY_MS = 86_400_000
_SERIES = "WITH RECURSIVE series (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM series WHERE n < :last)"
_FINISHED = f"""
INSERT INTO holdfast_history (
    id, kind, queue, priority, state, position, payload, tags, run_at, enqueued_at, claim, life, attempt, max_attempts,
    crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at, error_class, error,
    error_fingerprint, delete_at, finished_at, result
)
{_SERIES}, outcomes AS (
    SELECT n, n % 10 = 0 AS failed, CASE n % 10 WHEN 0 THEN 30 ELSE 7 END * {_DAY_MS} AS kept FROM series
), past AS (
    SELECT *, CAST(:now - (kept - 3600000) * (1 - n / :total) AS INTEGER) AS ended FROM outcomes
)
SELECT
    :tag + n, 'work_' || (n % 20), 'default', 5, CASE WHEN failed THEN 'failed' ELSE 'completed' END, n,
    '{{"number":' || n || '}}', CASE WHEN n % 10 = 5 THEN '{{"tenant":"t' || (n % 1000) || '"}}' END,
    ended - 2000, ended - 2000, 1, 1, 1, 5, 0, 3, 3600000, 1, n / 100, ended - 1000, ended - 1000,
    CASE WHEN failed THEN 'ValueError' END, CASE WHEN failed THEN 'no such page' END,
    CASE WHEN failed THEN 'ValueError:' || (n % 500) END, ended + kept, ended, 'null'
FROM past
"""
# Tags are kept by a trigger on the table of live jobs, which these rows never were in.
_TAGS = f"""
INSERT INTO holdfast_tags (name, value, enqueued_at, job_id)
{_SERIES}
SELECT 'tenant', 't' || (n % 1000), history.enqueued_at, history.id
FROM series
CROSS JOIN holdfast_history AS history ON history.id = :tag + n
WHERE n % 10 = 5
"""
_LIVE = f"""
INSERT INTO holdfast_jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes, timeout_ms
)
{_SERIES}
SELECT
    :tag + :begin + n, 'work', 'default', 5, :state, CASE :state WHEN 'queued' THEN n END,
    '{{"number":' || (n - 1) || '}}', :run_at + n / 1000, :now - 60000 + n / 1000, 5, 3, 3600000
FROM series
"""
_EXPIRE = "UPDATE holdfast_history SET delete_at = :now - 1 WHERE id <= :tag + :rows"


def load(place: Place, queued: int, scheduled: int, finished: int) -> None:
    """Fill a file that has no jobs."""
    now = int(time.time() * 1_000)
    with closing(_opened(place)) as database:
        given: dict[str, Any] = {"tag": _tag(database), "now": now, "total": float(finished)}
        for first, last in chunks(finished):
            with database:
                database.execute(_FINISHED, given | {"first": first, "last": last})
                database.execute(_TAGS, given | {"first": first, "last": last})
        begin = finished
        for state, count, wait in (("queued", queued, -60_000), ("scheduled", scheduled, _DAY_MS)):
            given |= {"begin": begin, "state": state, "run_at": now + wait}
            for first, last in chunks(count):
                with database:
                    database.execute(_LIVE, given | {"first": first, "last": last})
            begin += count
        with database:
            database.execute("UPDATE holdfast_counters SET value = ? WHERE name IN ('ids', 'positions')", [begin + 1])


def expire(place: Place, rows: int) -> None:
    """Let the retention of the first rows of history have ended."""
    with closing(_opened(place)) as database, database:
        database.execute(_EXPIRE, {"now": int(time.time() * 1_000), "tag": _tag(database), "rows": rows})


def _opened(place: Place) -> sqlite3.Connection:
    return sqlite3.connect(place.url.removeprefix("sqlite:///"))


def _tag(database: sqlite3.Connection) -> int:
    (tag,) = database.execute(
        "SELECT CAST(value AS INTEGER) << 48 FROM holdfast_meta WHERE key = 'store_tag'"
    ).fetchone()
    return int(tag)
