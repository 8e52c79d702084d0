"""Stores as they look after months: finished and waiting jobs by the hundred thousand, and something of everything."""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from holdfast.job import JobState
from holdfast.stores.failures import group_id
from holdfast.stores.sql import in_schema
from tests.server.draining import QUEUES
from tests.support.sizes import size

FIRST = 10_001
"""The number of the first worker, escalation and bulk operation."""
KINDS = tuple(f"work_{number}" for number in range(20))
GROUP = group_id("work_0", "app.E0@f")
_BATCH = 50_000
_DAYS = size(1, 90)
# As upkeep leaves them: so old, rows of so many seconds.
_SPANS = ((60, timedelta(hours=2)), (1_800, timedelta(days=2)), (3_600, timedelta(days=_DAYS)))
_DEEDS, _ESCALATIONS, _WORKERS, _GROUPS, _RUNS = size(200, 10_000), size(100, 2_000), size(20, 200), 50, 20

_COLUMNS = """
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts, max_crashes,
    claim, life, attempt, crashes, delete_at, finished_at, error_class, error, error_fingerprint
"""
_FINISHED = f"""
INSERT INTO holdfast.history ({_COLUMNS})
SELECT
    n, 'work_' || n % 20, (ARRAY['default', 'high', 'bulk', 'mail'])[1 + n % 4], 5,
    CASE WHEN n % 50 = 0 THEN 'failed' WHEN n % 5000 = 7 THEN 'cancelled' ELSE 'completed' END, n,
    jsonb_build_object('n', n, 'to', 'user' || n % 1000, 'text', repeat('lorem ipsum ', 8)),
    CASE WHEN n % 2 = 0 THEN jsonb_build_object('tenant', 't' || n % 200, 'file', 'f' || n % 50000) END,
    CASE WHEN n % 10 = 0 THEN 'actor' || n % 100 END, now(), now() - interval '10 days' + n * interval '800 ms', 5, 3,
    1, 1, 1, 0, now() + (1 + n % 29) * interval '1 day', now() - interval '10 days' + n * interval '801 ms',
    CASE WHEN n % 50 = 0 THEN 'app.E' || n % 7 END, CASE WHEN n % 50 = 0 THEN 'refused' END,
    CASE WHEN n % 50 = 0 THEN 'app.E' || n % 7 || '@f' END
FROM generate_series($1::int, $2::int) AS n
"""
_LIVE = """
INSERT INTO holdfast.jobs (
    id, kind, queue, priority, state, position, payload, tags, run_at, enqueued_at, max_attempts, max_crashes
)
SELECT
    1000000000 + n, 'work', 'default', 5, 'queued', nextval('holdfast.position_seq'), '{"n": 1}',
    CASE WHEN n % 2 = 0 THEN jsonb_build_object('tenant', 't' || n % 200) END, now(),
    now() - interval '1 hour' + n * interval '10 ms', 5, 3
FROM generate_series(1, $1::int) AS n
"""
_ON_SQLITE = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :jobs)
INSERT INTO holdfast_history ({_COLUMNS})
SELECT
    n, 'work_' || (n % 20), json_array('default', 'high', 'bulk', 'mail') ->> (n % 4), 5,
    iif(n % 50 = 0, 'failed', iif(n % 5000 = 7, 'cancelled', 'completed')), n,
    json_object('n', n, 'to', 'user' || (n % 1000), 'text', 'lorem ipsum lorem ipsum lorem ipsum lorem ipsum'),
    iif(n % 2 = 0, json_object('tenant', 't' || (n % 200)), NULL), iif(n % 10 = 0, 'actor' || (n % 100), NULL), :now,
    :now - 864000000 + n * 800, 5, 3, 1, 1, 1, 0, :now + 864000000, :now - 864000000 + n * 801,
    iif(n % 50 = 0, 'app.E' || (n % 7), NULL), iif(n % 50 = 0, 'refused', NULL),
    iif(n % 50 = 0, 'app.E' || (n % 7) || '@f', NULL)
FROM numbers
"""
_LIVE_ON_SQLITE = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :jobs)
INSERT INTO holdfast_jobs (
    id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes
)
SELECT 1000000000 + n, 'work', 'default', 5, 'queued', n, '{"n": 1}', :now, :now - 3600000 + n * 10, 5, 3
FROM numbers
"""
_TAGS_ON_SQLITE = """
INSERT OR IGNORE INTO holdfast_tags (name, value, enqueued_at, job_id)
SELECT 'tenant', tags ->> 'tenant', enqueued_at, id FROM holdfast_history WHERE tags IS NOT NULL
"""


class Rows(NamedTuple):
    """Rows of a table that is small beside those of jobs; times as such, JSON as text."""

    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


async def fill_postgres(dsn: str, schema: str, finished: int, live: int) -> None:
    """Fill a schema."""
    connection = await asyncpg.connect(dsn)
    for first in range(1, finished + 1, _BATCH):
        await connection.execute(in_schema(_FINISHED, schema), first, min(finished, first + _BATCH - 1))
    await connection.execute(in_schema(_LIVE, schema), live)
    for table, columns, rows in _others():
        await connection.copy_records_to_table(table, schema_name=schema, columns=columns, records=rows)
    for table in ("jobs", "history", "rollups", "audit", "escalations"):
        await connection.execute(in_schema(f"VACUUM ANALYZE holdfast.{table}", schema))
    await connection.close()


async def fill_sqlite(path: Path, finished: int, live: int) -> None:
    """Fill a file."""
    await asyncio.to_thread(_fill_sqlite, path, finished, live)


def _fill_sqlite(path: Path, finished: int, live: int) -> None:
    now = round(time.time() * 1_000)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_ON_SQLITE, {"jobs": finished, "now": now})
        connection.execute(_LIVE_ON_SQLITE, {"jobs": live, "now": now})
        connection.execute("UPDATE holdfast_counters SET value = ? WHERE name = 'positions'", (live,))
        connection.execute(_TAGS_ON_SQLITE)
        for table, columns, rows in _others():
            places = ", ".join("?" * len(columns))
            given = (tuple(map(_for_sqlite, row)) for row in rows)
            connection.executemany(
                f"INSERT INTO holdfast_{table} ({', '.join(columns)}) VALUES ({places})",
                given,
            )


def _for_sqlite(value: Any) -> Any:
    return round(value.timestamp() * 1_000) if isinstance(value, datetime) else value


def _others() -> Iterator[Rows]:
    now = datetime.now(UTC)
    for make in (_rollups, _deeds, _escalations, _workers, _groups, _runs):
        yield make(now)


def _rollups(now: datetime) -> Rows:
    """Count 20 kinds in each of 4 queues, one of which fails now and then."""
    rows: list[tuple[Any, ...]] = []
    youngest = now.replace(second=0, microsecond=0) - timedelta(minutes=6)
    for span_s, age in _SPANS:
        oldest, at = now - age, youngest
        while at > oldest:
            at = datetime.fromtimestamp((at.timestamp() - 1) // span_s * span_s, UTC)
            jobs = span_s // 6
            for place, (queue, kind) in enumerate((queue, kind) for queue in QUEUES for kind in KINDS):
                wait, run = (_spread(len(rows) + place, jobs, first) for first in (place % 9, place % 7 + 4))
                rows.append((at, queue, kind, "completed", jobs, wait, run, span_s))
                if place % 20 == 0:
                    rows.append((at, queue, kind, "failed", 2, '{"3": 2}', '{"5": 2}', span_s))
        youngest = at
    return Rows("rollups", ("minute", "queue", "kind", "state", "jobs", "wait", "run", "span_s"), rows)


def _spread(number: int, jobs: int, first: int) -> str:
    """Write a histogram of six buckets, each time another one."""
    return json.dumps({first + bucket: jobs // 6 + (number * (bucket + 1)) % 97 for bucket in range(6)})


def _deeds(now: datetime) -> Rows:
    rows = [
        (
            now - timedelta(minutes=_DEEDS - number),
            f"actor{number % 30}",
            "operator",
            "retry_job",
            f"/jobs/{number}",
            QUEUES[number % 4],
            200,
            json.dumps({"number": number, "reason": "it was late"}),
            f"r-{number}",
        )
        for number in range(_DEEDS)
    ]
    names = ("at", "actor", "role", "action", "target", "queue", "status", "detail", "request")
    return Rows("audit", names, rows)


def _escalations(now: datetime) -> Rows:
    """Raise escalations, of which every tenth is open."""
    rows = []
    for number in range(_ESCALATIONS):
        at = now - timedelta(minutes=_ESCALATIONS - number)
        closed = None if number % 10 == 0 else at + timedelta(minutes=9)
        told = (f"work_{number % 20}", f"app.E{number}@f", "work failed", number, at, at, at, 1, closed, closed, closed)
        rows.append((FIRST + number, "ops", "ops", "failed", QUEUES[number % 4], *told))
    names = ("id", "policy", "stage", "source", "queue", "kind", "fingerprint", "title", "count", "first_at", "last_at")
    return Rows("escalations", (*names, "told_at", "said", "acked_at", "closed_at", "resolved_at"), rows)


def _workers(now: datetime) -> Rows:
    """Enter workers, of which every other one has died."""
    rows = []
    for number in range(_WORKERS):
        dead_at = now - timedelta(hours=2) if number % 2 else None
        place = (FIRST + number, f"instance-{number}", f"host-{number % 30}", 100 + number, "1.0")
        times = (now - timedelta(hours=4), now, now + timedelta(hours=9))
        rows.append((*place, json.dumps(QUEUES), 10, *times, dead_at))
    names = ("id", "instance", "host", "pid", "version", "queues", "concurrency", "registered_at", "renewed_at")
    return Rows("workers", (*names, "lease_until", "dead_at"), rows)


def _groups(now: datetime) -> Rows:
    rows = []
    for number in range(_GROUPS):
        kind, fingerprint = f"work_{number % 2 * 10}", f"app.E{number // 2}@f"
        at = now - timedelta(minutes=number)
        known = (fingerprint, QUEUES[number % 4], f"app.E{number // 2}", "refused", 1_000 + number)
        rows.append((group_id(kind, fingerprint), kind, *known, at - timedelta(days=9), at, 50))
    names = ("id", "kind", "fingerprint", "queue", "error_class", "error", "seen", "first_at", "last_at", "last_job")
    return Rows("dead_letters", names, rows)


def _runs(now: datetime) -> Rows:
    which = json.dumps({"states": [JobState.FAILED.value]})
    rows = [
        (FIRST + number, f"key-{number}", "retry", which, "actor", "ended", 100, 0, 1, 100, now, now, now)
        for number in range(_RUNS)
    ]
    names = ("id", "key", "verb", "filter", "actor", "state", "expected", "spacing_us", "step", "done", "started_at")
    return Rows("bulk_runs", (*names, "next_at", "ended_at"), rows)
