"""A process dies at each of its calls of the store, before it and after: whatever a job does, it ends well."""

import itertools
import time
from collections.abc import Iterable

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.values import JobFilter
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.oracle import Oracle
from tests.support.place import Place
from tests.support.sizes import CHAOS
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

SAMPLE: dict[str, dict[str, tuple[int, ...]]] = {
    "child": {"before": (5, 16), "after": (11,)},
    "supervisor": {"before": (3,), "after": (2,)},
}
LIFE_MS = 150  # long enough for the start and a report to be written


class Trial:
    """One life of a job, in which one process dies at one call."""

    def __init__(self, place: Place, role: str, when: str, number: int) -> None:
        self.fired = place.folder / f"fired-{role}-{when}-{number}"
        self._place = place
        self._points = f"{role}.{when}_store_call:kill@{number}"

    async def run(self) -> float:
        """Let a job live, starting the worker again if it is gone; the answer is how long that took."""
        place, began = self._place, time.monotonic()
        ids = await place.enqueue("life", "effects", [f'{{"ms": {LIFE_MS}}}'])
        group = self._start(HOLDFAST_FAILPOINTS=self._points, HOLDFAST_FAILPOINTS_FIRED=str(self.fired))

        async def is_over() -> bool:
            nonlocal group
            if group.process.poll() is not None:
                assert group.process.returncode < 0, f"{self._points}: it left by itself: {group.said()}"
                group.close()
                group = self._start()
            return bool(await place.store.finished_jobs(ids)) and not await self._children_left()

        await until(is_over, f"the life with {self._points} is over")
        group.close()
        took = time.monotonic() - began
        await self._check(ids)
        return took

    def _start(self, **env: str) -> Group:
        return self._place.start("--concurrency", "2", CHAOS_LEASE="2", **env)

    async def _children_left(self) -> bool:
        return any(not job.is_finished for job in await self._jobs("plain"))

    async def _jobs(self, kind: str) -> list[JobRow]:
        return (await self._place.store.list_jobs(JobFilter(kinds=(kind,)), limit=1_000)).jobs

    async def _check(self, ids: list[int]) -> None:
        place = self._place
        jobs = {job.id: job for job in await place.store.get_jobs(ids)}
        mine = [row for row in await place.effects() if row[0] in jobs]
        Oracle(jobs, place.notes(), mine).check(ids)
        (job,) = jobs.values()
        where = f"{self._points}: {job}"
        assert job.state is JobState.COMPLETED, where
        assert len(mine) == 1, where
        assert job.crashes <= 1, where
        assert len(await self._jobs("plain")) == len(await self._jobs("life")), f"{where}: one child each"
        assert [attempt.outcome for attempt in job.attempts].count("retry") == 1, where


def numbers(role: str, when: str) -> Iterable[int]:
    """All calls of a life, as long as there are any; at every commit some of them."""
    return itertools.count(1) if CHAOS else SAMPLE[role][when]


@pytest.mark.timeout(900 if CHAOS else 120)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("role", ["child", "supervisor"])
async def test_a_crash_at_any_call_of_the_store_is_survived(place: Place, role: str, when: str) -> None:
    began, fired = time.monotonic(), 0
    for number in numbers(role, when):
        trial = Trial(place, role, when, number)
        await trial.run()
        if not trial.fired.exists():
            break  # the life was over before
        fired += 1
    assert fired >= (5 if CHAOS else len(SAMPLE[role][when])), "the points were not reached"
    took = time.monotonic() - began
    show(f"{role}, {when}: died at {fired} calls, {took / (fired + 1):.1f} s each")
