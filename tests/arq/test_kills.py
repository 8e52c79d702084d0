"""Arq workers are killed over and over, and every job completes."""

from collections import Counter

import pytest

from holdfast import Holdfast, JobState
from tests.arq.conftest import Fleet
from tests.support import sizes
from tests.support.wait import until

pytestmark = pytest.mark.real_time


@pytest.mark.timeout(600)
async def test_every_job_completes_whoever_is_killed(fleet: Fleet, app: Holdfast) -> None:
    jobs, kills = sizes.size(60, 600), sizes.size(3, 20)
    workers = [fleet.start(), fleet.start()]
    calls = [app.tasks.get("work").call(f"n{number}") for number in range(jobs)]
    handles = await app.enqueue_many(calls)
    for kill in range(kills):
        wanted = jobs * (kill + 1) // (kills + 1)
        await until(lambda: len(fleet.noted) >= wanted, patience_s=60)  # noqa: B023 - it is waited for within the round
        workers[kill % 2].kill()
        workers[kill % 2].wait()
        workers[kill % 2] = fleet.start()
    for number, handle in enumerate(handles):
        assert await handle.result("120s") == f"N{number}"
    found = await app.jobs.get_many([handle.id for handle in handles])
    assert {job.state for job in found.values()} == {JobState.COMPLETED}
    begun = Counter(line for line in fleet.noted if line.startswith("begin"))
    for number, handle in enumerate(handles):
        job = found[handle.id]
        assert begun[f"begin n{number}"] <= job.claim, "it ran without a claim"
        assert [attempt.outcome for attempt in job.attempts].count("completed") <= 1
