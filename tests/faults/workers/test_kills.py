"""`kill -9` of worker processes while jobs flow: none lost, none completed twice, nobody charged who had not begun."""

import asyncio
import random
import signal
import time
from collections.abc import Sequence

import pytest

from holdfast.job import JobState
from tests.faults.workers.looking import open_files, rescue_lags, spread
from tests.faults.workers.stopping import go_on, stop
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.groups import Group, send
from tests.support.oracle import Oracle, all_ended
from tests.support.pace import every
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample, pytest.mark.xdist_group("heavy")]

JOBS = size(200, 3_000)
KILLING_S = size(3, 20)
LONGEST_MS = size(100, 30)  # few kills hit running jobs only where some run most of the time
EVERY_S = 0.5
RESCUED_S = 10  # a newcomer has to start, on a machine that does other things too
A_WHOLE_GROUP = 6  # each kill of so many takes a supervisor with all its children

SAME = 20  # looks at open files that find the same


class Killer:
    """Kills children and groups at random, starts groups anew, and remembers when it did what."""

    def __init__(self, place: Place, chance: random.Random, groups: int = 2, **env: str) -> None:
        self.kills: dict[int, float] = {}
        self.groups_killed = 0
        self.files: dict[int, int] = {}
        self._place = place
        self._chance = chance
        self._env = env
        self.groups = [self._start() for _ in range(groups)]

    def _start(self) -> Group:
        return self._place.start("--processes", "2", "--concurrency", "4", **self._env)

    async def arrive(self) -> None:
        """Wait until every child of every group is entered in the store, and supervisors have opened all files."""
        await self._place.arrived(2 * len(self.groups))
        seen: list[dict[int, int]] = []

        def have_opened_all() -> bool:  # one that was just entered opens more
            seen.append({group.pid: open_files(group.pid) for group in self.groups})
            return len(seen) >= SAME and all(one == seen[-1] for one in seen[-SAME:])

        await until(have_opened_all, "the supervisors have opened all files")
        self.files = seen[-1]

    @property
    def oldest(self) -> list[int]:
        """The supervisors that were there from the start."""
        return [group.pid for group in self.groups if group.pid in self.files]

    async def rage(self, seconds: float) -> None:
        """Kill for a while, and until that was often enough: whoever was killed takes its time to work again."""
        end = time.monotonic() + seconds
        turn = 0
        async for _ in every(
            EVERY_S, lambda: time.monotonic() < end or len(self.kills) < seconds or not self.groups_killed
        ):
            turn += 1
            if turn % A_WHOLE_GROUP == 0:
                self._kill_group()
            else:
                self._kill_child()

    def _kill_child(self) -> None:
        """Kill a child in the middle of a job, or one that has begun some: a child that starts would never work."""
        notes = self._place.notes()
        ended = {(note.job, note.claim) for note in notes if note.what == "end"}
        running = {note.pid for note in notes if (note.job, note.claim) not in ended}
        begun = {note.pid for note in notes}
        children = [pid for group in self.groups for pid in group.children if pid in begun]
        if children:
            pid = self._chance.choice([pid for pid in children if pid in running] or children)
            if send(pid, signal.SIGKILL):
                self.kills[pid] = time.time()

    def _kill_group(self) -> None:
        index = self._chance.randrange(len(self.groups))
        group = self.groups[index]
        assert group.process.poll() is None, "a supervisor ended by itself"
        self.kills |= dict.fromkeys(group.children, time.time())
        group.kill_all()
        self.groups_killed += 1
        self.groups[index] = self._start()


@pytest.mark.timeout(180)
async def test_no_job_is_lost_to_kills(place: Place, chance: random.Random) -> None:
    killer = Killer(place, chance, CHAOS_LEASE="2")
    await killer.arrive()
    feed = Feed(place, longest_ms=LONGEST_MS)
    await asyncio.gather(feed.serve(JOBS, KILLING_S), killer.rage(KILLING_S))
    jobs = await all_ended(place.store, feed.accepted, 90)
    notes = place.notes()
    oracle = Oracle(jobs, notes, await place.effects())
    oracle.check(feed.accepted)
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    assert len(killer.kills) >= KILLING_S, "too few kills"
    assert killer.groups_killed >= 1
    assert all(group.process.poll() is None for group in killer.groups), "a supervisor died that nobody killed"
    lags = rescue_lags(jobs.values(), notes, killer.kills)
    assert lags, "no kill hit a running job"
    assert max(lags) < RESCUED_S, "what a killed process held was kept too long"
    show(f"{len(killer.kills)} kills, {killer.groups_killed} of whole groups; requeued after: {spread(lags)}")
    show(f"{oracle.lease_ends} claims lost with a lease, {oracle.overlaps} runs overlapped")
    # Those that lived from the start have closed what their dead children left open.
    await until(lambda: all(open_files(pid) <= killer.files[pid] for pid in killer.oldest), "files are closed")


async def buffered(place: Place, ids: Sequence[int]) -> list[int]:
    """Name the jobs that are claimed and have not begun."""
    begun = {note.job for note in place.notes()}
    held = [job.id for job in await place.store.get_jobs(ids) if job.state is JobState.RUNNING]
    return [job_id for job_id in held if job_id not in begun]


async def killed_with_a_buffer(place: Place, holes: str = "") -> tuple[Oracle, list[int]]:
    """Kill a process that has jobs in its buffer; the answer: what became of all of them, and which they were."""
    group = place.start("--concurrency", "4", app="tests.faults.workers.holed:app", CHAOS_HOLES=holes)
    ids: list[int] = []
    while True:
        ids += await place.enqueue("plain", "default", ['{"ms": 20}'] * 80)
        await until(lambda: len(place.notes()) > 2 * len(ids) - 120, "jobs flow")  # noqa: B023 - asked at once
        (child,) = group.children
        await stop(place, [child])
        if len(await buffered(place, ids)) >= 3:
            break
        go_on([child])  # it was quicker than this test, and has nothing left
    assert send(child, signal.SIGKILL)
    jobs = await all_ended(place.store, ids)
    return Oracle(jobs, place.notes(), await place.effects()), ids


async def test_what_only_waited_in_a_killed_process_is_not_charged(place: Place) -> None:
    oracle, ids = await killed_with_a_buffer(place)
    oracle.check(ids)
    outcomes = [attempt.outcome for job in oracle.jobs.values() for attempt in job.attempts]
    assert outcomes.count("interrupt") >= 3, "the process that was killed had no buffer"


@pytest.mark.chaos
async def test_a_charge_before_the_beginning_is_noticed(sqlite_place: Place) -> None:
    oracle, ids = await killed_with_a_buffer(sqlite_place, holes="marking")
    with pytest.raises(AssertionError, match="charged for claims that had not begun"):
        oracle.check(ids)
