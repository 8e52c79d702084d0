"""Upkeep deletes no finished job before its time, on whatever day of the week that is."""

from datetime import timedelta

import pytest

from holdfast.job import JobState
from holdfast.stores.store import Store
from tests.support.builders import find, finished
from tests.support.clock import Clock

KEPT = {JobState.COMPLETED: timedelta(days=7), JobState.FAILED: timedelta(days=30)}


@pytest.mark.guards("kept-history")
@pytest.mark.parametrize("state", KEPT)
async def test_a_job_is_there_to_its_last_moment_and_gone_a_week_later(
    store: Store, clock: Clock, state: JobState
) -> None:
    begun = clock.now
    jobs = []
    for day in range(7):
        await clock.advance(begun + timedelta(days=day) - clock.now)
        jobs.append((await finished(store, state)).id)
    for day, job in enumerate(jobs):
        await clock.advance(begun + timedelta(days=day) + KEPT[state] - timedelta(milliseconds=1) - clock.now)
        await store.keep_history(1_000)
        assert await find(store, job) is not None, f"{day} days after the first"
    await clock.advance(begun + timedelta(days=14) + KEPT[state] - clock.now)
    await store.keep_history(1_000)
    assert [await find(store, job) for job in jobs] == [None] * 7
