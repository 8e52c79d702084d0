"""A job that brings its process down is buried; what runs and waits beside it is not charged."""

import asyncio
import random
import signal
import sys

import pytest

from holdfast.job import JobRow, JobState
from tests.faults.workers.looking import descendants, resident_bytes
from tests.support.figures import show
from tests.support.groups import Group, send
from tests.support.oracle import Oracle, all_ended
from tests.support.pace import every
from tests.support.place import Place
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

NEIGHBOURS = size(100, 1_000)
WAYS = ("kill", "abort", "grow")
TOO_LARGE = 400_000_000
BACKOFF_S = (7.5, 12.5)
BURIED_S = 90.0  # three crashes each, and every time processes start again


async def watch_memory(group: Group, killed: list[int]) -> None:
    """Kill whatever of a group has grown too large, as the kernel or a container would."""
    async for _ in every(0.02, lambda: True):
        large = [pid for pid in descendants(group.pid) if resident_bytes(pid) > TOO_LARGE]
        killed += [pid for pid in large if send(pid, signal.SIGKILL)]


async def buried(place: Place, poisons: list[int]) -> dict[int, JobRow]:
    """Wait until poison is buried; at every commit without waiting for the backoff, only looking at it."""
    waits: dict[int, float] = {}
    jobs: dict[int, JobRow] = {}

    async def are_buried() -> bool:
        jobs.update((job.id, job) for job in await place.store.get_jobs(poisons))
        for job in jobs.values():
            if job.state is JobState.SCHEDULED and job.id not in waits:
                waits[job.id] = (job.run_at - job.attempts[-1].ended_at).total_seconds()
                if not CHAOS:
                    await place.store.reschedule_jobs([job.id], run_at=None, delay_ms=0)
        return all(job.is_finished for job in jobs.values())

    await until(are_buried, "the poison is buried", BURIED_S)
    assert waits.keys() == set(poisons), "the second crash was not followed by a backoff"
    shortest, longest = BACKOFF_S
    assert all(shortest <= wait <= longest for wait in waits.values()), waits
    return jobs


@pytest.mark.timeout(150)
@pytest.mark.parametrize("ways", [(way,) for way in WAYS] if CHAOS else [WAYS], ids="-".join)
@pytest.mark.guards("crash-suspects", "begin-mark")
async def test_poison_is_buried_and_its_neighbours_are_not_charged(
    place: Place, chance: random.Random, ways: tuple[str, ...]
) -> None:
    ids = await place.enqueue("plain", "default", ['{"ms": 0}'] * (NEIGHBOURS // 2))
    poisons = [(await place.enqueue("poison", "default", [f'{{"way": "{way}"}}']))[0] for way in ways]
    ids += await place.enqueue("plain", "default", ['{"ms": 0}'] * (NEIGHBOURS - NEIGHBOURS // 2))
    group = place.start("--concurrency", "8")  # when all of them wait: poison without neighbours shows nothing
    killed: list[int] = []
    watching = asyncio.create_task(watch_memory(group, killed))
    try:
        found = await buried(place, poisons)
        jobs = await all_ended(place.store, ids)
    finally:
        watching.cancel()
    notes = place.notes()
    Oracle(jobs | found, notes, await place.effects()).check([*ids, *poisons])
    charged = [job for job in jobs.values() if (job.attempt, job.crashes) != (1, 0)]
    assert not charged, f"{len(charged)} neighbours were charged: {charged[:3]}"
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    for job in found.values():
        begun = [note for note in notes if note.job == job.id]
        assert (job.state, job.crashes) == (JobState.FAILED, 3), job
        # One that ran alone may have been given back uncharged: another poison brought down the worker above it.
        spared = {attempt.claim for attempt in job.attempts if attempt.outcome == "interrupt"}
        charged_runs = [note for note in begun if note.claim not in spared]
        assert len(begun) == len({note.pid for note in begun}), "each time in another process"
        assert len(charged_runs) == 3, "and no more often than it is charged"
        alone = {note.pid for note in begun[1:]}
        assert not [note for note in notes if note.pid in alone and note.job != job.id], "not alone in its process"
    assert group.process.poll() is None
    assert bool(killed) == ("grow" in ways), "nobody grew"
    waited = sum(attempt.outcome == "interrupt" for job in jobs.values() for attempt in job.attempts)
    assert waited, "the process had no buffer when it was brought down"
    show(f"{', '.join(ways)}: 3 crashes each, {waited} neighbours requeued uncharged")


@pytest.mark.timeout(150)
async def test_no_neighbour_in_a_thread_is_buried_with_it(place: Place) -> None:
    """Which thread brought a process down cannot be known: all of them are charged, and none of them for good."""
    group = place.start("--concurrency", "8")
    ids = await place.enqueue("threaded", "default", ['{"ms": 5}'] * (NEIGHBOURS // 4))
    (poisoned,) = await place.enqueue("poison", "default", ['{"way": "kill"}'])
    ids += await place.enqueue("threaded", "default", ['{"ms": 5}'] * (NEIGHBOURS // 4))
    found = await buried(place, [poisoned])
    jobs = await all_ended(place.store, ids, 90)
    Oracle(jobs | found, place.notes(), await place.effects()).check([*ids, poisoned], at_once=8)
    assert found[poisoned].state is JobState.FAILED
    assert all(job.state is JobState.COMPLETED for job in jobs.values()), "a neighbour was buried"
    crashes = sum(job.crashes for job in jobs.values())
    assert max(job.crashes for job in jobs.values()) <= 1
    assert group.process.poll() is None
    show(f"{crashes} neighbours in threads were charged a crash, none buried")


@pytest.mark.chaos
async def test_a_charge_for_a_neighbours_crash_is_noticed(sqlite_place: Place) -> None:
    place = sqlite_place
    before = (sys.executable, "-m", "tests.faults.workers.holes")
    ids = await place.enqueue("plain", "default", ['{"ms": 30}'] * 40)
    await place.enqueue("poison", "default", ['{"way": "kill"}'])
    ids += await place.enqueue("plain", "default", ['{"ms": 30}'] * 40)
    place.start("--concurrency", "8", before=before, CHAOS_HOLES="charging")
    await until(lambda: any(note.job not in ids for note in place.notes()), "the poison has begun")
    jobs = await all_ended(place.store, ids)
    assert [job for job in jobs.values() if job.crashes], "the hole is not there"
