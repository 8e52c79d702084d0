"""Jobs in the words of the seeds: each view shows live and finished jobs, and none can be written to."""

import json
import random
from typing import Any

import asyncpg
import pytest

from holdfast import public_id
from holdfast.job import TERMINAL, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import ProgressReport
from holdfast.transitions import completed, retried
from tests.support import raw
from tests.support.builders import (
    FAILURE,
    cancel,
    claim_one,
    crash,
    end,
    enqueue,
    enqueue_many,
    finished,
    running,
    settle,
)

VIEWS = ("queue_job", "tasks", "delayed_jobs", "delayed_jobs_dlq")


async def one(reader: Any, view: str, job_id: int) -> Any:
    """Read a job that a view must show, once."""
    (row,) = await reader.fetch(f"SELECT * FROM {view} WHERE id = $1", job_id)
    return row


async def in_each_state(store: PostgresStore) -> dict[str, int]:
    """Make a job for each state."""
    found = {state.value: (await finished(store, state)).id for state in sorted(TERMINAL)}
    found["running"] = (await running(store)).id
    found["scheduled"] = await enqueue(store, delay_ms=60_000)
    found["queued"], found["announced"], found["held"], found["blocked"] = await enqueue_many(store, 4)
    for state in ("held", "blocked"):
        await raw.execute(
            store, f"UPDATE holdfast.jobs SET state = '{state}', position = NULL WHERE id = {found[state]}"
        )
    await raw.execute(
        store, f"UPDATE holdfast.jobs SET announced_at = holdfast.clock() WHERE id = {found['announced']}"
    )
    return found


async def test_the_words_of_each_seed(seeded: PostgresStore, reader: Any) -> None:
    jobs = await in_each_state(seeded)
    states = {job_id: state for state, job_id in jobs.items()}
    found = {view: {states[row["id"]]: row["status"] for row in await reader.fetch(f"TABLE {view}")} for view in VIEWS}
    ended = {state: state for state in ("completed", "completed_with_errors", "failed", "cancelled")}
    waiting = ("scheduled", "queued", "announced", "held", "blocked")
    assert found["queue_job"] == ended | dict.fromkeys(waiting, "queued") | {"running": "in_progress"}
    assert found["tasks"] == {
        "blocked": "SCHEDULED",
        "scheduled": "SCHEDULED",
        "held": "PENDING",
        "queued": "PENDING",
        "announced": "QUEUED",
        "running": "IN_PROGRESS",
        "completed": "COMPLETED",
        "completed_with_errors": "COMPLETED",
        "failed": "FAILED",
        "cancelled": "FAILED",
    }
    assert found["delayed_jobs"] == dict.fromkeys(waiting, "PENDING") | {"running": "PROCESSING"}
    assert found["delayed_jobs_dlq"] == {"failed": "FAILED"}


async def test_the_columns_of_each_seed(reader: Any) -> None:
    columns = {
        view: [attribute.name for attribute in (await reader.prepare(f"TABLE {view}")).get_attributes()]
        for view in VIEWS
    }
    assert columns["queue_job"] == [
        "id",
        "public_id",
        "backend_job_id",
        "kind",
        "status",
        "phase",
        "org_id",
        "project_id",
        "build_id",
        "progress",
        "errors",
        "date_created",
        "date_started",
        "date_completed",
    ]
    assert columns["tasks"] == [
        "id",
        "title",
        "payload",
        "priority",
        "owner_id",
        "status",
        "created_at",
        "worker_id",
        "retry_count",
        "scheduled_at",
        "updated_at",
    ]
    delayed = [
        "id",
        "queue",
        "job_type",
        "priority",
        "payload",
        "scheduled_at",
        "locked_at",
        "locked_by",
        "attempts",
        "max_attempts",
        "last_error",
    ]
    assert columns["delayed_jobs"] == [*delayed, "created_at", "status"]
    assert columns["delayed_jobs_dlq"] == [*delayed, "created_at", "status", "failed_at"]


async def test_public_ids_are_those_of_the_library(reader: Any) -> None:
    ids = [0, 1, public_id.LARGEST, 642217140806455563, *(random.randrange(public_id.LARGEST) for _ in range(2_000))]
    rows = await reader.fetch("SELECT id, public_id(id) FROM unnest($1::bigint[]) AS id", ids)
    assert [tuple(row) for row in rows] == [(job_id, public_id.encode(job_id)) for job_id in ids]


async def test_progress_has_the_items_of_the_seed_while_it_runs_and_after(seeded: PostgresStore, reader: Any) -> None:
    job = await running(seeded)
    phase = {"name": "editions", "ordinal": 0, "weight": 1, "state": "running", "percent": None, "message": None}
    phase |= {"data": None, "error": None, "result": None, "started_ago": 10, "ended_ago": None}
    changes = {
        "started": 10,
        "phases": [phase],
        "sets": [{"name": "editions", "word": "slug", "phase": "editions", "keys": ["__main", "v2.x", "DM-12345"]}],
        "items": [
            ["editions", "__main", "completed", None],
            ["editions", "v2.x", "skipped", "superseded by build 01HQ-3KBR-T5GN-8W"],
            ["editions", "DM-12345", "failed", "R2 timeout after 3 retries"],
        ],
    }
    await seeded.save_progress(
        [ProgressReport(job.id, job.claim, None, None, None, "editions", None, json.dumps(changes))]
    )
    expected = {
        "editions_total": 3,
        "editions_completed": ["__main"],
        "editions_skipped": [{"slug": "v2.x", "reason": "superseded by build 01HQ-3KBR-T5GN-8W"}],
        "editions_failed": [{"slug": "DM-12345", "error": "R2 timeout after 3 retries"}],
        "editions_in_progress": [],
    }
    failed = [{"items": "editions", "slug": "DM-12345", "error": "R2 timeout after 3 retries"}]
    live = await one(reader, "queue_job", job.id)
    await settle(seeded, completed(job.id, job.claim, with_errors=True))
    for row in (live, await one(reader, "queue_job", job.id)):
        assert (row["phase"], json.loads(row["progress"]), json.loads(row["errors"])) == ("editions", expected, failed)


async def test_errors_are_those_of_every_attempt(seeded: PostgresStore, reader: Any) -> None:
    job = await running(seeded, max_attempts=2)
    assert (await one(reader, "queue_job", job.id))["errors"] is None
    await end(seeded, retried(job.id, job.claim, FAILURE, 0))
    waiting = await one(reader, "queue_job", job.id)
    assert [(entry["attempt"], entry["error"]) for entry in json.loads(waiting["errors"])] == [(1, "it went wrong")]
    assert (waiting["status"], waiting["date_started"]) == ("queued", None)
    again = await claim_one(seeded)
    await settle(seeded, completed(again.id, again.claim))
    assert [entry["attempt"] for entry in json.loads((await one(reader, "queue_job", job.id))["errors"])] == [1]
    failed = await finished(seeded, JobState.FAILED)
    (entry,) = json.loads((await one(reader, "queue_job", failed.id))["errors"])
    assert (entry["attempt"], entry["error_class"], entry["error"]) == (1, "SomeError", "it went wrong")
    letter = await one(reader, "delayed_jobs_dlq", failed.id)
    assert (letter["last_error"], letter["attempts"], letter["failed_at"]) == ("it went wrong", 1, failed.finished_at)


async def test_retries_are_counted(seeded: PostgresStore, reader: Any) -> None:
    async def count() -> int:
        return int((await one(reader, "tasks", job.id))["retry_count"])

    job = await running(seeded)
    counts = [await count()]
    await end(seeded, retried(job.id, job.claim, FAILURE, 0))
    counts.append(await count())
    again = await claim_one(seeded)
    counts.append(await count())
    await crash(seeded, again)
    counts.append(await count())
    last = await claim_one(seeded)
    counts.append(await count())
    await settle(seeded, completed(last.id, last.claim))
    counts.append(await count())
    assert counts == [0, 1, 1, 2, 2, 2]


async def test_a_delivery_keeps_its_name_from_the_announcement_to_the_end(seeded: PostgresStore, reader: Any) -> None:
    async def name(job_id: int) -> Any:
        return (await one(reader, "queue_job", job_id))["backend_job_id"]

    async def announce(job_id: int) -> None:
        await raw.execute(seeded, f"UPDATE holdfast.jobs SET announced_at = holdfast.clock() WHERE id = {job_id}")

    job_id = await enqueue(seeded)
    assert await name(job_id) is None
    await announce(job_id)
    first = f"{public_id.encode(job_id)}-0"
    assert await name(job_id) == first
    job = await claim_one(seeded)
    assert await name(job_id) == first
    await end(seeded, retried(job.id, job.claim, FAILURE, 0))
    assert await name(job_id) is None, "the next one is not announced yet"
    await announce(job_id)
    second = f"{public_id.encode(job_id)}-1"
    assert await name(job_id) == second
    job = await claim_one(seeded)
    assert await name(job_id) == second
    await settle(seeded, completed(job.id, job.claim))
    assert await name(job_id) == second


@pytest.mark.parametrize("by", ["withdraw", "force"])
async def test_a_delivery_of_a_cancelled_job_keeps_its_name(seeded: PostgresStore, reader: Any, by: str) -> None:
    job_id = await enqueue(seeded)
    await raw.execute(seeded, f"UPDATE holdfast.jobs SET announced_at = holdfast.clock() WHERE id = {job_id}")
    if by == "force":
        await claim_one(seeded)
    await cancel(seeded, job_id)
    if by == "force":
        assert await seeded.force_cancels(-1_000, 10) == (job_id,)
    row = await one(reader, "queue_job", job_id)
    assert (row["status"], row["backend_job_id"]) == ("cancelled", f"{public_id.encode(job_id)}-0")


async def test_the_words_of_locks_and_lanes(seeded: PostgresStore, reader: Any) -> None:
    job = await running(seeded, kind="rss_feed_refresh", queue="default", payload='{"feed": 1}')
    row = await one(reader, "delayed_jobs", job.id)
    assert (row["queue"], row["job_type"], row["priority"]) == ("DEFAULT", "RSS_FEED_REFRESH", 5)
    assert (row["locked_at"], row["locked_by"], row["attempts"]) == (job.claimed_at, "here", 1)
    waiting = await one(reader, "delayed_jobs", await enqueue(seeded, priority=0))
    assert (waiting["locked_at"], waiting["locked_by"], waiting["attempts"]) == (None, None, 0)
    assert (await one(reader, "tasks", waiting["id"]))["priority"] == "high"
    assert (await one(reader, "tasks", job.id))["priority"] == "low"


@pytest.mark.parametrize("view", VIEWS)
async def test_nothing_can_be_written_through_a_view(seeded: PostgresStore, reader: Any, view: str) -> None:
    await enqueue(seeded)
    for statement in (f"UPDATE {view} SET id = 1", f"DELETE FROM {view}", f"INSERT INTO {view} (id) VALUES (1)"):
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
            await reader.execute(statement)


async def test_an_expired_job_is_not_shown(seeded: PostgresStore, reader: Any) -> None:
    job = await finished(seeded, JobState.FAILED)
    for view in ("queue_job", "tasks", "delayed_jobs_dlq"):
        await one(reader, view, job.id)
    await seeded.set_time(job.delete_at)
    for view in VIEWS:
        assert await reader.fetch(f"SELECT id FROM {view}") == []
