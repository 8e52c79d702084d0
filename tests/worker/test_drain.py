"""`run_worker(until="empty")` leaves nothing behind that may run now, although other processes promote jobs too."""

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import Context, Holdfast, JobState
from holdfast import moments as published
from tests.support.clock import Clock
from tests.support.moments import Moments
from tests.support.workers import MakeApp, drained

PROMOTE = "SELECT jobs FROM {schema}.promote_jobs(100)"


@pytest.fixture
def other(dsn: str) -> Any:
    """Give a connection of another process."""
    with psycopg.connect(dsn) as connection:
        yield connection
        connection.rollback()


def register(app: Holdfast) -> Any:
    """Register a task that fails once."""

    @app.task
    async def fails_once(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise LookupError

    return fails_once


def promote(app: Holdfast, other: Any) -> int:
    """Make due jobs ready as another process does."""
    (jobs,) = other.execute(PROMOTE.format(schema=app.parts.settings.schema)).fetchone()
    return int(jobs)


async def failed_once(app: Holdfast) -> Any:
    """Enqueue a job, let it fail, and let the time of its next attempt come."""
    handle = await register(app).enqueue()
    await drained(app)
    assert (await handle.get()).state is JobState.SCHEDULED
    clock = Clock(app.store)
    await clock.stop()
    await clock.advance(timedelta(hours=1))
    return handle


@pytest.mark.guards("look-after-promotion")
async def test_what_another_process_made_ready_after_the_last_look_is_run(make_postgres: MakeApp, other: Any) -> None:
    async with make_postgres() as app:
        handle = await failed_once(app)
        promoted: list[int] = []

        def watch(name: str, facts: dict[str, Any]) -> None:
            if name == "claimed" and not facts["jobs"] and not promoted:
                promoted.append(promote(app, other))
                other.commit()

        published.watchers.append(watch)
        try:
            await drained(app)
        finally:
            published.watchers.remove(watch)
        assert promoted  # [1], or [0] where the worker's own look came first
        assert (await handle.get()).state is JobState.COMPLETED


async def test_what_another_process_is_making_ready_is_waited_for(
    make_postgres: MakeApp, other: Any, moments: Moments
) -> None:
    async with make_postgres() as app:
        handle = await failed_once(app)
        assert promote(app, other) == 1
        worker = asyncio.create_task(app.run_worker(until="empty"))
        await moments.next("promoted", times=5)
        assert not worker.done()
        other.commit()
        await worker
        assert (await handle.get()).state is JobState.COMPLETED
