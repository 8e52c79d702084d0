"""Rows that another program wrote: what of a job cannot be read is named, and every other job is shown."""

import json
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, JobState
from holdfast.resources.job import Job
from tests.server.asking import asking
from tests.support import raw
from tests.support.web import PAGE, visit
from tests.support.workers import drained

JOBS = "/api/v1/jobs"
NOTES: dict[str, Any] = {
    "phases": 5,
    "webhook": {},
    "estimate": "much",
    "permit_at": 10**400,
    "on_restart": [],
    "cancelled_by": {"name": "ada"},
    "cancel_reason": 5,
    "traceback": ["a"],
    "traceparent": 7,
    "tracestate": [1],
}


@pytest.fixture
async def ids(app: Holdfast) -> dict[str, str]:
    """Give the ids of one job for each note that cannot be read; one more job is good."""

    @app.task
    async def work() -> str:
        return "fine"

    found = {}
    for name, note in NOTES.items():
        handle = await work.enqueue()
        extra = json.dumps({name: note})
        await raw.execute(app.store, f"UPDATE holdfast.jobs SET extra = '{extra}' WHERE id = {handle.number}")
        found[handle.id] = f"extra.{name}: "
    await work.enqueue()
    return found


def require_named(jobs: list[dict[str, Any]], ids: dict[str, str]) -> None:
    assert len(jobs) == len(ids) + 1
    for job in jobs:
        mistakes = job["unreadable"]
        assert len(mistakes) == (job["id"] in ids)
        assert all(mistake.startswith(ids[job["id"]]) for mistake in mistakes)


async def test_the_api_shows_every_job_and_names_what_it_cannot_read(app: Holdfast, ids: dict[str, str]) -> None:
    async with asking(app) as web:
        for query in ({}, {"whole": "true"}):
            answer = await web.get(JOBS, params=query)
            assert answer.status_code == 200, answer.text
            require_named(answer.json()["jobs"], ids)
        for job_id in ids:
            for part in ("", "/events", "/attempts", "/why"):
                assert (await web.get(f"{JOBS}/{job_id}{part}")).status_code == 200, (job_id, part)
        whole = (await web.get(JOBS, params={"whole": "true"})).json()["jobs"]
    assert [msgspec.convert(job, Job).unreadable for job in whole] == [job["unreadable"] for job in whole]


async def test_the_pages_show_every_job_and_name_what_they_cannot_read(app: Holdfast, ids: dict[str, str]) -> None:
    async with visit(app, is_open=True) as web:
        web.headers.update(PAGE)
        listed = (await web.get("/jobs")).text
        assert listed.count("cannot be read: ") == len(ids)
        for job_id, name in ids.items():
            answer = await web.get(f"/jobs/{job_id}")
            assert answer.status_code == 200
            assert f"annot be read, and is left out: {name}" in answer.text


async def test_jobs_with_notes_that_cannot_be_read_run_as_others_do(app: Holdfast, ids: dict[str, str]) -> None:
    await drained(app)
    jobs = [await app.jobs.get(job_id) for job_id in ids]
    assert {(job.state, job.result, job.claim) for job in jobs} == {(JobState.COMPLETED, "fine", 1)}


@pytest.mark.parametrize("column", ["progress", "attempts", "phases", "items", "logs"])
@pytest.mark.parametrize("value", ["5", '"a"', "[5]", '{"a": 5}', '{"a": {"a_failed": 5, "a_total": []}}'])
async def test_a_part_of_a_finished_job_that_cannot_be_read_is_left_out(app: Holdfast, column: str, value: str) -> None:
    @app.task
    async def work() -> str:
        return "fine"

    handle = await work.enqueue()
    await drained(app)
    await raw.execute(app.store, f"UPDATE holdfast.history SET {column} = '{value}' WHERE id = {handle.number}")
    async with asking(app) as web:
        answer = await web.get(JOBS, params={"whole": "true"})
        assert answer.status_code == 200, answer.text
        (job,) = answer.json()["jobs"]
        assert (job["state"], job["result"]) == ("completed", "fine")
        assert (await web.get(f"{JOBS}/{handle.id}/items")).status_code == 200
