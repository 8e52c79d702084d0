"""Jobs are the same to the local client, the HTTP API and the remote client."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import msgspec

from holdfast import Context, Fatal, JobFilter, JobState, Retry
from holdfast.client.jobs import Jobs
from holdfast.remote.jobs import RemoteJobs
from holdfast.remote.link import Link
from holdfast.resources.redaction import redact
from tests.support.web import PAGE, made_token, visit
from tests.support.workers import MakeApp, drained

FIXED = datetime(2026, 1, 1, tzinfo=UTC)


async def test_each_verb_that_reads_answers_alike(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()

    @app.task(max_attempts=1)
    async def work(ctx: Context, number: int) -> int:
        ctx.log.info("number %d", number)
        async with ctx.items("pages", ["a", "b"]) as items:
            await items.each(lambda key: None if key == "a" else 1 / 0)
        if number:
            raise Fatal
        return number

    async with app:
        handles = [await work.using(tags={"n": str(number)}, key=f"k{number}").enqueue(number) for number in range(2)]
        await drained(app)
        waiting = await work.using(delay="1h").enqueue(2)
        link = Link("http://127.0.0.1", await made_token(app), transport=httpx2.ASGITransport(app=app.asgi()))
        try:
            for job in (*handles, waiting):
                assert await _read(RemoteJobs(link), job.id) == await _read(app.jobs, job.id)
                told = await link.ask(dict, "GET", "jobs", job.id)
                assert told == msgspec.to_builtins(redact(await app.jobs.get(job.id)))
            there, here = RemoteJobs(link), app.jobs
            which = JobFilter(states=(JobState.SCHEDULED,))
            for jobs in (there, here):
                assert await jobs.count("kind:work") == await here.count("kind:work")
                assert [job.id async for job in jobs.iterate(which)] == [waiting.id]
                assert (await jobs.wait(handles[0].id, "5s")).state is JobState.COMPLETED_WITH_ERRORS
        finally:
            await link.close()


async def test_a_retry_without_a_reason_has_none(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()

    @app.task
    async def stumble() -> None:
        raise Retry("1h")

    async with app:
        job = await stumble.enqueue()
        await drained(app)
        assert [change.reason for change in await app.jobs.events(job.id)] == [None, None, "retry"]
        async with visit(app, is_open=True) as web:
            page = (await web.get(f"/jobs/{job.id}", headers=PAGE)).text
    assert "retry</small>" in page
    assert "retry:" not in page


async def _read(jobs: Jobs, job: str) -> list[Any]:
    return [
        await jobs.get(job),
        await jobs.get_many([job]),
        await jobs.search(f"id:{job}"),
        await jobs.list(f"id:{job}"),
        await jobs.events(job),
        await jobs.logs(job),
        await jobs.items(job),
        (await jobs.why(job)).reason,
        await jobs.counts(),
        replace(await jobs.stats(), at=FIXED),
    ]
