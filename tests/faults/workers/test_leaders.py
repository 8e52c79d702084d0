"""`kill -9` of whoever leads: every nominal time fires exactly once, and no two lead at once (E7, D6, F26)."""

import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.stores.cluster import FireRow
from holdfast.stores.values import JobFilter
from tests.support.figures import show
from tests.support.groups import ROOT, send
from tests.support.lines import whole_lines
from tests.support.pace import every, lasts
from tests.support.place import Place
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

APP = "tests.faults.workers.ticking:app"
UPKEEPERS = size(2, 3)
LEASE_S = size(2, 10)
KILLING_S = size(3, 60)
EVERY_S = size(1, 2)
STEPS_MS = range(-50, 51, size(50, 5))
REPEATS = size(1, 3)
SECOND = timedelta(seconds=1)
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.sample,
    pytest.mark.timeout(size(120, 600)),
    pytest.mark.xdist_group("heavy"),
]


class Upkeepers:
    """Some `holdfast services run`, of which one leads."""

    def __init__(self, place: Place, lease_s: float) -> None:
        self.kills = 0
        self._place = place
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **place.env, "TICKING_LEASE": str(lease_s)}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._processes = [self._start(number) for number in range(UPKEEPERS)]

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "holdfast", "-A", APP, "services", "run"]
        with self.log(number).open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=self._env, stdout=log, stderr=log)

    def add_worker(self) -> None:
        """Start one more process, which runs jobs and never leads."""
        with self.log(UPKEEPERS).open("ab") as log:
            command = [sys.executable, "-m", "tests.faults.workers.ticking"]
            env = self._env | {"TICKING_ASIDE": "1"}
            self._workers.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log))

    def log(self, number: int) -> Path:
        """Where one of them writes to."""
        return self._place.folder / f"upkeep-{number}.log"

    async def leader(self) -> int | None:
        """The process that leads as the store sees it, if it lives."""
        holders = [int(row.holder.split("/")[1]) for row in await self._place.store.list_leaders()]
        return next((pid for pid in holders if any(one.pid == pid for one in self._processes)), None)

    async def found_leader(self) -> int:
        """Wait until one leads."""
        found: list[int | None] = []

        async def one_leads() -> bool:
            found[:] = [await self.leader()]
            return found[0] is not None

        await until(one_leads, "one leads", PATIENCE_S)
        return found[0] or 0

    def kill(self, pid: int) -> None:
        """Kill one, and start another in its place at once."""
        (number,) = [number for number, one in enumerate(self._processes) if one.pid == pid]
        send(pid, signal.SIGKILL)
        self._processes[number].wait()
        self.kills += 1
        self._processes[number] = self._start(number)

    def kill_any(self, chance: random.Random) -> None:
        """Kill one of them, whichever."""
        self.kill(chance.choice(self._processes).pid)

    def close(self) -> None:
        """End them all, and show what they said if the test fails."""
        for number, process in enumerate((*self._processes, *self._workers)):
            process.kill()
            process.wait()
            print(self.log(number).read_text(errors="replace"))  # noqa: T201 - pytest shows it with the failure


@asynccontextmanager
async def upkept(place: Place, lease_s: float) -> AsyncIterator[Upkeepers]:
    """Let upkeep processes run beside the block."""
    upkeepers = Upkeepers(place, lease_s)
    try:
        await upkeepers.found_leader()
        yield upkeepers
    finally:
        upkeepers.close()


def lines(place: Place, word: str) -> Iterator[list[str]]:
    """Read the lines of the ledger that begin so."""
    for line in whole_lines(place.ledger):
        if line.startswith(word + " "):
            yield line.split()


async def all_fires(place: Place) -> list[FireRow]:
    return sorted(await place.store.list_fires("tick", 10_000), key=lambda fire: fire.nominal)


async def fired_until(place: Place, moment: datetime) -> list[FireRow]:
    """Wait until the schedule has come as far as a moment, and read its fires."""
    fires: list[FireRow] = []

    async def have_fired() -> bool:
        fires[:] = await all_fires(place)
        return bool(fires) and fires[-1].nominal >= moment - SECOND

    await until(have_fired, f"the schedule has come as far as {moment}", PATIENCE_S)
    return fires


async def assert_each_once(place: Place, fires: list[FireRow]) -> None:
    """Every second has one record and one job, and there are no others."""
    assert {later.nominal - fire.nominal for fire, later in itertools.pairwise(fires)} <= {SECOND}
    assert Counter(fire.outcome for fire in fires) == {"enqueued": len(fires)}
    ids = [fire.job_id for fire in fires if fire.job_id is not None]
    assert len(set(ids)) == len(fires)
    jobs = {job.id: job for job in await place.store.get_jobs(ids)}
    assert [jobs[fire.job_id].fire_time for fire in fires if fire.job_id is not None] == [
        fire.nominal for fire in fires
    ]
    assert all(job.schedule == "tick" for job in jobs.values())
    page = await place.store.list_jobs(JobFilter(kinds=("tick",)), limit=1_000)
    assert sorted(job.id for job in page.jobs) == sorted(ids)


def together(place: Place) -> float:
    """For how long two processes believed to lead at the same time; one may lead again after another."""
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for _, pid, at, term in lines(place, "leads"):
        first, _ = spans.get((pid, term), (float(at), 0.0))
        spans[pid, term] = (first, float(at))
    ordered = sorted(spans.values())
    assert ordered
    return max([0.0, *(last - first for (_, last), (first, _) in itertools.pairwise(ordered))])


async def test_leaders_are_killed_and_every_second_fires_once(place: Place, chance: random.Random) -> None:
    async with upkept(place, LEASE_S) as upkeepers:
        upkeepers.add_worker()
        await place.arrived(1)
        begin = time.monotonic()
        dues = await promised(place)
        async for _ in every(EVERY_S, lambda: time.monotonic() < begin + KILLING_S):
            pid = await upkeepers.leader()
            if pid is not None:
                upkeepers.kill(pid)
            elif chance.random() < 0.5:  # one who stands by
                upkeepers.kill_any(chance)
        await upkeepers.found_leader()
        fires = await fired_until(place, datetime.now(UTC))
        late = await started_late(place, dues)
    show(
        f"{upkeepers.kills} kills, {len(fires)} fires, at most {max(fire.at - fire.nominal for fire in fires)} late;"
        f" due jobs {statistics.median(late) * 1e3:.0f} ms late, at most {max(late) * 1e3:.0f} ms"
    )
    await assert_each_once(place, await all_fires(place))
    assert together(place) == 0.0
    assert statistics.median(late) < (0.25 if CHAOS else LEASE_S)  # less than it takes until another leads


async def promised(place: Place) -> list[int]:
    """Enqueue jobs that become due one after the other while leaders are killed."""
    moments = [datetime.now(UTC) + timedelta(milliseconds=100 * number) for number in range(5, 10 * KILLING_S)]
    jobs = await place.make_jobs("due", "default", ["{}"] * len(moments))
    await place.store.insert_jobs(
        [msgspec.structs.replace(job, run_at=moment) for job, moment in zip(jobs, moments, strict=True)]
    )
    return [job.id for job in jobs]


async def started_late(place: Place, ids: list[int]) -> list[float]:
    """Wait until all these jobs have begun; how long after their time each did, once."""
    found: dict[int, float] = {}

    def have_begun() -> bool:
        found.update((int(job), float(at) - float(run_at)) for _, job, at, run_at in lines(place, "due"))
        return len(found) == len(ids)

    await until(have_begun, "all due jobs have begun", PATIENCE_S)
    assert sorted(found) == sorted(ids)
    return list(found.values())


async def test_a_leader_that_dies_around_the_tick_neither_loses_nor_doubles_it(place: Place) -> None:
    async with upkept(place, lease_s=1.0) as upkeepers:
        for offset_ms in [*STEPS_MS] * REPEATS:
            pid = await upkeepers.found_leader()
            tick = datetime.now(UTC).replace(microsecond=0) + SECOND
            moment = tick + timedelta(milliseconds=offset_ms)
            if moment < datetime.now(UTC):
                moment += SECOND
            await lasts((moment - datetime.now(UTC)).total_seconds())
            upkeepers.kill(pid)
        await upkeepers.found_leader()
        fires = await fired_until(place, datetime.now(UTC))
    show(f"{upkeepers.kills} kills around the tick, {len(fires)} fires")
    await assert_each_once(place, await all_fires(place))
    assert together(place) == 0.0
