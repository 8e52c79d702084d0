"""Limits hold over many processes, however many of them are killed, and nothing of them is lost."""

import asyncio
import contextlib
import json
import random
import signal
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise

import pytest

from holdfast.job import JobState
from tests.faults.workers.limited import RATE, SLOTS
from tests.support.figures import show
from tests.support.groups import Group, send
from tests.support.oracle import Note, all_ended
from tests.support.pace import every
from tests.support.place import Place
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample, pytest.mark.xdist_group("heavy")]

APP = "tests.faults.workers.limited:app"
KILLING_S = size(3, 30)
PACED_S = size(1, 30)
PROCESSES = size(2, 4)
JOB_MS = 300
TENANTS = ("a", "b")
LOOK_S = 0.05


def with_offspring(place: Place, died: Mapping[int, float]) -> dict[int, float]:
    """Say of the processes of killed ones too when they ended."""
    paths = place.folder.glob(f"{place.ledger.name}-parent-*")
    parents = {int(path.name.rpartition("-")[2]): int(path.read_text()) for path in paths}
    return {**{pid: died[parent] for pid, parent in parents.items() if parent in died}, **died}


def overlaps(notes: Iterable[Note], died: Mapping[int, float], ids: set[int]) -> int:
    """How many of these jobs ran at once at most; one whose process was killed ended then."""
    ends = {(note.job, note.claim): note.at for note in notes if note.what == "end"}
    changes: list[tuple[float, int]] = []
    for note in notes:
        if note.what == "begin" and note.job in ids:
            end = ends.get((note.job, note.claim), died.get(note.pid))
            assert end is not None, f"job {note.job} neither ended nor was killed"
            changes += [(note.at, 1), (max(end, note.at), -1)]  # it may have begun just before it was killed
    most = running = 0
    for _, change in sorted(changes):  # of two at the same time the end comes first
        running += change
        most = max(most, running)
    return most


async def published(place: Place, name: str) -> None:
    """Wait until the workers have told the store of their limits."""

    async def is_known() -> bool:
        return await place.store.limit_usage(name) is not None

    await until(is_known, f"the store knows the limit {name}")


class Kills:
    """Kills a random child every second, and remembers when."""

    def __init__(self, group: Group, chance: random.Random) -> None:
        self.died: dict[int, float] = {}
        self._group = group
        self._chance = chance

    async def rage(self, seconds: float, worked: set[int]) -> None:
        """Kill for a while; only who has worked, or no process would ever."""
        end = time.monotonic() + seconds
        async for _ in every(1, lambda: time.monotonic() < end):
            children = [pid for pid in self._group.children if pid in worked and pid not in self.died]
            if children:
                pid = self._chance.choice(children)
                self.died[pid] = time.monotonic()  # not later than others can have what it held
                send(pid, signal.SIGKILL)


@pytest.mark.timeout(180)
async def test_no_more_run_than_the_slots_of_their_key_and_no_slot_is_lost_to_kills(
    place: Place, chance: random.Random
) -> None:
    store = place.store
    # One process alone can use every slot: on a busy machine the others take long to start again.
    group = place.start("--processes", str(PROCESSES), "--concurrency", "32", app=APP)
    await place.arrived(PROCESSES)
    await published(place, "tenants")
    count = round((KILLING_S + 2) * SLOTS * 1_000 / JOB_MS)
    place.max_crashes = 100  # a kill from outside costs one
    ids = {
        tenant: await place.enqueue("keyed", "default", [f'{{"tenant": "{tenant}", "ms": {JOB_MS}}}'] * count)
        for tenant in TENANTS
    }
    kills = Kills(group, chance)
    worked: set[int] = set()
    used: list[int] = []

    async def look() -> None:
        async for _ in every(LOOK_S, lambda: True):
            worked.update(note.pid for note in place.notes())
            for tenant in TENANTS:
                usage = await store.limit_usage("tenants", tenant)
                assert usage is not None
                if worked:
                    used.append(usage.taken)

    looking = asyncio.create_task(look())
    await kills.rage(KILLING_S, worked)
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking
    jobs = await all_ended(store, [job_id for some in ids.values() for job_id in some], 120)
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    died = with_offspring(place, kills.died)
    most = {tenant: overlaps(place.notes(), died, set(some)) for tenant, some in ids.items()}
    share = sum(used) / (len(used) * SLOTS)
    show(f"{len(kills.died)} kills; ran at once: {most}; slots in use: {share:.1%}")
    assert most == dict.fromkeys(TENANTS, SLOTS)
    assert kills.died
    assert max(used) <= SLOTS
    assert not CHAOS or share >= 0.9
    for tenant in TENANTS:
        usage = await store.limit_usage("tenants", tenant)
        assert usage is not None
        assert (usage.taken, usage.held) == (0, 0)


@pytest.mark.timeout(120)
async def test_starts_keep_their_pace_over_many_processes(postgres_place: Place) -> None:
    place = postgres_place
    place.start("--processes", str(PROCESSES), "--concurrency", "40", app=APP)
    await place.arrived(PROCESSES)
    await published(place, "pace")
    ids = await place.enqueue("paced", "default", ["{}"] * (RATE * (PACED_S + 1)))
    jobs = await all_ended(place.store, ids, PACED_S + 60)
    permits = sorted(job.extra["permit_at"] / 1e6 for job in jobs.values())
    busiest = max(sum(at <= other < at + 1 for other in permits[index:]) for index, at in enumerate(permits))
    rate = (len(permits) - 1) / (permits[-1] - permits[0])
    begun = sorted(note.at for note in place.notes() if note.what == "begin")
    show(f"{busiest} permits in the busiest second, {rate:.1f}/s on average, {len(begun)} starts")
    assert busiest <= RATE
    assert min(later - earlier for earlier, later in pairwise(permits)) >= 0.0199
    assert not CHAOS or rate >= 45


@pytest.mark.timeout(120)
async def test_each_instance_runs_no_more_than_its_slots(postgres_place: Place) -> None:
    place = postgres_place
    groups = [
        place.start("--processes", str(PROCESSES), "--concurrency", "16", "--queues", "shots", app=APP) for _ in "ab"
    ]
    await place.arrived(2 * PROCESSES)
    gate = place.folder / "gate"
    ids = await place.enqueue("shot", "shots", [json.dumps({"ms": 100, "gate": str(gate)})] * size(40, 300))
    children = [set(group.children) for group in groups]
    await until(lambda: len(place.notes()) >= 2 * SLOTS, "both instances have taken their slots")
    gate.touch()
    await all_ended(place.store, ids)
    notes = place.notes()
    for mine in children:
        ran = {note.job for note in notes if note.pid in mine}
        assert overlaps(notes, {}, ran) <= SLOTS
        assert ran
    assert overlaps(notes, {}, set(ids)) > SLOTS
