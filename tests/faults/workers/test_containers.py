"""A handler that brings down its worker with the supervisor: it fails as well, and its neighbours do not."""

import signal
from collections.abc import AsyncIterator

import pytest

from holdfast.job import JobRow, JobState
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.moments import MomentsFile
from tests.support.oracle import all_ended
from tests.support.place import Place
from tests.support.sizes import CHAOS
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

PATIENCE_S = 90.0  # a worker has to start, and a lease to end
WAYS = ("on_the_loop", "in_a_thread", "in_a_process")


class Container:
    """What a container runtime does: it starts the worker again whenever everything in it was killed."""

    def __init__(self, place: Place, *, loses_marks: bool) -> None:
        self._place = place
        self._temporary = place.folder / "tmp"  # where the marks lie, unless they lie beside the store
        self._temporary.mkdir()
        self._env = {"CHAOS_CONTAINER": str(place.folder), "TMPDIR": str(self._temporary)}
        if loses_marks:
            self._env |= {"CHAOS_LOSES_MARKS": "1", "CHAOS_LEASE": "3"}

    async def lives(self, poison: int, most: int) -> AsyncIterator[Group]:
        """Start the worker until a job has ended; each life lasts until the job or the container has ended."""
        for _ in range(most):
            group = self._place.start("--concurrency", "4", app="tests.faults.workers.container:app", **self._env)

            async def is_over(group: Group = group) -> bool:
                return group.process.poll() is not None or await self._has_ended(poison)

            await until(is_over, "the container or the poison has ended", PATIENCE_S)
            yield group
            if await self._has_ended(poison):
                return
        message = f"the poison has brought the container down {most} times, and lives"
        raise AssertionError(message)

    async def _has_ended(self, poison: int) -> bool:
        (job,) = await self._place.store.get_jobs([poison])
        if job.state is JobState.SCHEDULED and not CHAOS:  # a commit does not wait for the backoff
            await self._place.store.reschedule_jobs([poison], run_at=None, delay_ms=0)
        return job.is_finished


async def read(place: Place, job_id: int) -> JobRow:
    (job,) = await place.store.get_jobs([job_id])
    return job


@pytest.mark.sample
@pytest.mark.parametrize("max_crashes", [1, 3])
@pytest.mark.parametrize("loses_marks", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("kind", WAYS)
async def test_poison_that_takes_its_container_along_fails_after_its_last_crash(
    place: Place, kind: str, loses_marks: bool, max_crashes: int
) -> None:
    place.max_crashes = max_crashes
    (poison,) = await place.enqueue(kind, "default", ["{}"])
    container = Container(place, loses_marks=loses_marks)
    groups = [group async for group in container.lives(poison, max_crashes + 3)]
    job = await read(place, poison)
    runs = len(place.notes())
    show(f"{kind}, max_crashes={max_crashes}: {runs} executions")
    assert (job.state, job.crashes, job.attempt) == (JobState.FAILED, max_crashes, 0)
    assert max_crashes <= runs <= max_crashes + (max_crashes > 1), "more than one execution was not charged"

    def last_words() -> list[str]:
        return [line for line in groups[-1].said().splitlines() if "have failed" in line]

    await until(last_words, "the worker has logged what the store has committed")
    assert [job.public_id in line and "ERROR" in line for line in last_words()] == [True], last_words()


@pytest.mark.sample
@pytest.mark.parametrize("loses_marks", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("kind", WAYS)
async def test_the_neighbours_of_such_poison_complete(place: Place, kind: str, loses_marks: bool) -> None:
    """They are charged where the culprit cannot be told from them, and never for the last time."""
    ids = await place.enqueue("patient", "default", ['{"ms": 500}'] * 2)
    ids += await place.enqueue("busy", "default", ['{"ms": 50}'] * 4)
    (poison,) = await place.enqueue(kind, "default", ["{}"])
    ids += await place.enqueue("busy", "default", ['{"ms": 50}'] * 4)
    container = Container(place, loses_marks=loses_marks)
    async for _ in container.lives(poison, 6):
        pass
    jobs = await all_ended(place.store, ids, PATIENCE_S)
    assert (await read(place, poison)).state is JobState.FAILED
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}, "a neighbour was charged for it for good"
    show(f"{kind}: neighbours were charged {sorted(job.crashes for job in jobs.values())}")


@pytest.mark.sample
async def test_who_is_killed_after_it_was_asked_to_leave_is_free(place: Place, moments_file: MomentsFile) -> None:
    """A container runtime asks, waits, and kills what is left."""
    gate = place.folder / "gate"
    (job_id,) = await place.enqueue("gated", "default", [f'{{"gate": "{gate}"}}'])
    group = place.start("--concurrency", "4", **moments_file.env)
    await moments_file.wait("begun", job=job_id)
    group.signal(signal.SIGTERM)
    await moments_file.wait("drain_begun")
    group.kill_all()
    gate.touch()
    place.start("--concurrency", "4")
    (job,) = (await all_ended(place.store, [job_id], PATIENCE_S)).values()
    assert (job.state, job.crashes, job.claim) == (JobState.COMPLETED, 0, 2)
