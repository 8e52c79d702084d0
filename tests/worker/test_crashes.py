"""Jobs whose next crash counts: the store knows that they begin before they do."""

import pytest

from holdfast import Context, Holdfast, JobState
from holdfast.resources.job import Job
from tests.support import raw
from tests.support.workers import drained


@pytest.mark.guards("recorded-start")
@pytest.mark.parametrize("most, crashes", [(1, 0), (3, 1), (3, 2)])
async def test_the_store_knows_that_it_begins_before_it_does(app: Holdfast, most: int, crashes: int) -> None:
    """Where a machine is lost with its marks, the store alone tells the culprit from what waited beside it."""
    seen: list[Job] = []

    @app.task(max_crashes=most)
    async def look(ctx: Context) -> None:
        seen.append(await app.jobs.get(ctx.job.number))

    handle = await look.enqueue()
    await raw.execute(app.store, f"UPDATE holdfast.jobs SET crashes = {crashes}")
    await drained(app)
    assert (await handle.get()).state is JobState.COMPLETED
    assert [(job.state, job.started_at is not None) for job in seen] == [(JobState.RUNNING, True)]
