"""Measures the processor time per job on one store, as a program: `python -m tests.cost.measure URL SCHEMA`.

Jobs that do nothing are enqueued, claimed, finished and run. Two things besides the code change how long that takes. A
processor has fast moments and slow ones, by what runs beside it; and after each wait for a disk or a server it finds
its caches cold if others have run in between. So the work is cut into small pieces, and the quickest of them are
divided by the quickest spins (a fixed piece of Python) among them: both stand for the fast moments of the same seconds.
No commit waits for the disk. The program has a process to itself, so that no heap and no thread of other tests is part
of a figure. It prints JSON.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from typing import Any, NamedTuple

import psycopg

from holdfast import Holdfast
from holdfast.job import Job
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import claim_of, lane, register

ROUNDS = 4
SINGLE = 1_250  # in each round: 5,000 in all
MANY = 5_000  # in each round
_BATCH = 100
_CONCURRENCY = 100
_RUN_PIECE = 500  # a worker takes and ends jobs in bursts, which have to be spread over the piece
_SPINS = 10_000
_SPIN_EVERY_S = 0.02
_SHARE = 50  # the quickest fiftieth counts,
_LEAST = 4  # or so many
_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Figure(NamedTuple):
    """What 1,000 jobs cost: in spins, and in microseconds for each of them on this machine today."""

    spins: float
    microseconds: float


class Meter:
    """Takes the time of pieces of work, in this process and in the sessions of a PostgreSQL server on this machine."""

    def __init__(self, url: str) -> None:
        # The sessions of a server that was given may run on another machine.
        is_near = url.startswith("postgres") and "HOLDFAST_TEST_PG_DSN" not in os.environ
        self._watching = psycopg.connect(url, autocommit=True) if is_near else None
        self._pieces: dict[str, list[float]] = defaultdict(list)
        self._spins: dict[str, list[float]] = defaultdict(list)
        self._name = ""
        self._pids: list[int] = []
        self._spun = 0.0
        self._began = (0.0, 0.0)

    def begin(self, name: str) -> None:
        """Begin to measure."""
        self._name = name
        self._spin()
        self._began = self._now()

    def piece(self, jobs: int) -> None:
        """End a piece of work on so many jobs, spin now and then, and begin the next piece."""
        client, server = (now - began for now, began in zip(self._now(), self._began, strict=True))
        self._pieces[self._name].append(client / jobs)
        if self._watching is not None:
            self._pieces[f"{self._name}, server"].append(server / jobs)
        if time.process_time() - self._spun > _SPIN_EVERY_S:
            self._spin()
        self._began = self._now()

    def figures(self) -> dict[str, Figure]:
        """Give what everything cost that was measured."""
        return {name: self._figure(name) for name in self._pieces}

    def _figure(self, name: str) -> Figure:
        piece = _quickest(self._pieces[name])
        spin = _quickest(self._spins[name.removesuffix(", server")])
        return Figure(round(1_000 * piece / spin, 3), round(1_000_000 * piece, 1))

    def _now(self) -> tuple[float, float]:
        # The clock of another process, numbered as the kernel does; /proc counts in hundredths of a second.
        server = sum(time.clock_gettime(~pid << 3 | 2) for pid in self._pids)
        return time.process_time(), server

    def _spin(self) -> None:
        began = time.process_time()
        spin()
        self._spun = time.process_time()
        self._spins[self._name].append(self._spun - began)
        if self._watching is not None:
            self._pids = [pid for (pid,) in self._watching.execute(_BACKENDS).fetchall()]


def spin() -> None:
    """Do a fixed piece of work: never change it, for every figure is told in it."""
    kept: dict[str, tuple[int, list[str]]] = {}
    for number in range(_SPINS):
        name = f"name-{number % 997}"
        words = [name, str(number), name.upper()]
        kept[name] = (number, sorted(words))
        "|".join(words).split("|")


def _quickest(found: list[float]) -> float:
    return statistics.mean(sorted(found)[: max(len(found) // _SHARE, _LEAST)])


class Work:
    """What is measured, on an open app."""

    def __init__(self, app: Holdfast, meter: Meter) -> None:
        self.meter = meter
        self.app = app
        self.ran = 0

        @app.task
        async def nothing() -> None:
            self.ran += 1
            if self.ran % _RUN_PIECE == 0:
                meter.piece(_RUN_PIECE)

        self.task = nothing

    async def round(self) -> None:
        """Take every measure once, each on a store with nothing else in it."""
        store: Any = self.app.store
        await raw.clear(store)
        await self._enqueue_single()
        await raw.clear(store)
        await self._enqueue_many()
        await self._finish(await self._claim(await register(store, lease_ms=600_000)))
        await raw.clear(store)
        await self.app.enqueue_many([self.task.call() for _ in range(MANY)])
        self.meter.begin("run")
        await self.app.run_worker(until="empty", concurrency=_CONCURRENCY)

    async def _enqueue_single(self) -> None:
        self.meter.begin("enqueue one")
        for _ in range(SINGLE):
            await self.task.enqueue()
            self.meter.piece(1)

    async def _enqueue_many(self) -> None:
        self.meter.begin("enqueue many")
        for _ in range(MANY // _BATCH):
            await self.app.enqueue_many([self.task.call() for _ in range(_BATCH)])
            self.meter.piece(_BATCH)

    async def _claim(self, worker: int) -> list[Job]:
        claimed: list[Job] = []
        self.meter.begin("claim")
        for _ in range(MANY // _BATCH):
            claimed += await self.app.store.claim_jobs(claim_of(worker, lane(limit=_BATCH), limit=_BATCH))
            self.meter.piece(_BATCH)
        return claimed

    async def _finish(self, claimed: list[Job]) -> None:
        assert len(claimed) == MANY
        self.meter.begin("finish")
        for start in range(0, MANY, _BATCH):
            ended = [completed(job.id, job.claim) for job in claimed[start : start + _BATCH]]
            await self.app.store.finish_jobs(ended)
            self.meter.piece(_BATCH)


async def measure(url: str, schema: str) -> dict[str, Figure]:
    """Measure everything on a store that is migrated and empty."""
    meter = Meter(url)
    if url.startswith("postgres"):
        url += ("&" if "?" in url else "?") + "synchronous_commit=off"
    work = Work(Holdfast(url, schema=schema, synchronous="normal"), meter)
    async with work.app:
        await asyncio.gather(*(work.app.counts() for _ in range(20)))  # or the sessions of the pool come one by one
        for _ in range(ROUNDS):
            await work.round()
    assert work.ran == ROUNDS * MANY
    return meter.figures()


if __name__ == "__main__":
    measured = asyncio.run(measure(*sys.argv[1:]))
    sys.stdout.write(json.dumps({name: figure._asdict() for name, figure in measured.items()}))
