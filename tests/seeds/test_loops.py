"""What the scheduler and the janitor of seed 002, and the workers of seed 004, look for."""

from datetime import timedelta
from typing import Any

from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import retried
from tests.support.builders import FAILURE, end, enqueue, running
from tests.support.clock import set_time

DUE = "SELECT id FROM tasks WHERE status='SCHEDULED' AND scheduled_at <= NOW()"
STUCK = "SELECT id, retry_count FROM tasks WHERE status='IN_PROGRESS' AND updated_at < (NOW() - interval '5 minutes')"
POLL = "SELECT id FROM delayed_jobs WHERE queue = 'DEFAULT' AND scheduled_at <= NOW() AND locked_at IS NULL ORDER BY priority, created_at LIMIT 20"  # noqa: E501 - as it is written there


async def test_what_is_due_and_what_waits_to_be_polled(seeded: PostgresStore, reader: Any) -> None:
    now = await reader.fetchval("SELECT now()")
    await set_time(seeded, now - timedelta(minutes=2))
    await running(seeded)
    due = await enqueue(seeded, delay_ms=60_000)
    await enqueue(seeded, delay_ms=600_000)
    first = await enqueue(seeded, priority=0)
    await enqueue(seeded, queue="bulk")
    await set_time(seeded, None)
    assert [row["id"] for row in await reader.fetch(DUE)] == [due]
    assert [row["id"] for row in await reader.fetch(POLL)] == [first, due]


async def test_who_has_not_been_heard_of(seeded: PostgresStore, reader: Any) -> None:
    now = await reader.fetchval("SELECT now()")
    await set_time(seeded, now - timedelta(minutes=6))
    stuck = await running(seeded)
    retrying = await running(seeded)
    await set_time(seeded, now - timedelta(minutes=4))
    await end(seeded, retried(retrying.id, retrying.claim, FAILURE, 600_000))
    await running(seeded)
    await set_time(seeded, None)
    assert [tuple(row) for row in await reader.fetch(STUCK)] == [(stuck.id, 0)]
    waiting = await reader.fetchrow("SELECT status, retry_count, updated_at FROM tasks WHERE id = $1", retrying.id)
    assert tuple(waiting) == ("SCHEDULED", 1, now - timedelta(minutes=4))
