"""The queries that seed 000 gives to its operators, letter by letter."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import ProgressReport, Started
from tests.support.builders import enqueue, enqueue_many, finished, running
from tests.support.clock import set_time

BACKLOG = "SELECT count(*), kind FROM queue_job WHERE status = 'queued' GROUP BY kind"
ACTIVE = "SELECT * FROM queue_job WHERE status = 'in_progress'"
EDITIONS = "SELECT * FROM queue_job WHERE status = 'in_progress' AND project_id = :pid AND phase = 'editions'"
ERRORS = (
    "SELECT count(*) FROM queue_job WHERE status IN ('failed', 'completed_with_errors') "
    "AND date_completed > now() - interval '1 hour'"
)
THROUGHPUT = (
    "SELECT org_id, count(*) FROM queue_job WHERE status = 'completed' "
    "AND date_completed > now() - interval '1 hour' GROUP BY org_id"
)
SLOW = "SELECT * FROM queue_job WHERE status = 'in_progress' AND date_started < now() - interval '10 minutes'"
TENANT = {"org_id": "1", "project_id": "7"}


@pytest.fixture
async def now(reader: Any) -> Any:
    return await reader.fetchval("SELECT now()")


async def test_backlog_depth(seeded: PostgresStore, reader: Any) -> None:
    await running(seeded, kind="git_ref_audit")
    await enqueue_many(seeded, 2, kind="build_processing")
    await enqueue(seeded, kind="build_processing", delay_ms=60_000)
    assert {tuple(row) for row in await reader.fetch(BACKLOG)} == {(3, "build_processing")}


async def test_active_work_and_the_activity_of_editions(seeded: PostgresStore, reader: Any) -> None:
    job = await running(seeded, kind="build_processing", tags=TENANT)
    report = ProgressReport(job.id, job.claim, 40.0, "publishing", '{"objects": 1247}', "editions", 10.0)
    await seeded.save_progress([report])
    await enqueue(seeded, tags=TENANT)
    (active,) = await reader.fetch(ACTIVE)
    assert (active["id"], active["kind"], active["phase"]) == (job.id, "build_processing", "editions")
    assert (active["org_id"], active["project_id"], active["build_id"]) == ("1", "7", None)
    assert active["progress"] == ('{"message": "publishing", "objects": 1247, "percent": 40, "phase_percent": 10}')
    assert [row["id"] for row in await reader.fetch(EDITIONS.replace(":pid", "'7'"))] == [job.id]
    assert [row["id"] for row in await reader.fetch(EDITIONS.replace(":pid", "$1"), "7")] == [job.id]
    assert await reader.fetch(EDITIONS.replace(":pid", "'8'")) == []


async def test_error_rates_and_throughput_of_the_last_hour(seeded: PostgresStore, reader: Any, now: Any) -> None:
    await set_time(seeded, now - timedelta(minutes=61))
    await finished(seeded, JobState.FAILED)
    await finished(seeded, JobState.COMPLETED, tags=TENANT)
    await set_time(seeded, now - timedelta(minutes=59))
    await finished(seeded, JobState.FAILED)
    await finished(seeded, JobState.COMPLETED_WITH_ERRORS, tags=TENANT)
    await finished(seeded, JobState.CANCELLED)
    for _ in range(2):
        await finished(seeded, JobState.COMPLETED, tags=TENANT)
    await finished(seeded, JobState.COMPLETED)
    await set_time(seeded, None)
    assert await reader.fetchval(ERRORS) == 2
    assert {tuple(row) for row in await reader.fetch(THROUGHPUT)} == {("1", 2), (None, 1)}


async def test_slow_jobs(seeded: PostgresStore, reader: Any, now: Any) -> None:
    await set_time(seeded, now - timedelta(minutes=11))
    slow = await running(seeded)
    late = await running(seeded)
    await set_time(seeded, now - timedelta(minutes=5))
    await seeded.start_jobs([Started(late.id, late.claim, 0)])  # taken with many others, and begun only now
    await running(seeded)
    await set_time(seeded, None)
    assert [row["id"] for row in await reader.fetch(SLOW)] == [slow.id]
