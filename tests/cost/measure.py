"""Measures the processor time per job on one store, as a program: `python -m tests.cost.measure URL SCHEMA`.

Jobs that do nothing are enqueued, claimed, finished and run. Two things besides the code change how long that takes. A
processor has fast moments and slow ones, by what runs beside it; and after each wait for a disk or a server it finds
its caches cold if others have run in between. So the work is cut into small pieces between spins, which do a fixed
piece of work of the same character. Of pieces with many jobs the figure is the median of what each cost in the spins
before and after it. A piece of one call consists of waits for the most part: of these the quickest are divided by the
quickest spins. At a load of 11 to 22 on two cores no figure of ten runs was above 1.25 times their median.

No commit waits for the disk, and no garbage is collected while a piece runs. The program has a process to itself, so
that no heap and no thread of other tests is part of a figure. It prints JSON.
"""

import asyncio
import gc
import json
import math
import os
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from typing import Any, NamedTuple

import psycopg

from holdfast import Holdfast
from holdfast.job import JobRow
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import claim_of, lane, register

ROUNDS = 4
SINGLE = 1_250  # in each round: 5,000 in all
MANY = 2_500  # in each round
_BATCH = 100
_CONCURRENCY = 100
_RUN_PIECE = 250  # a worker takes and ends jobs in bursts, which have to be spread over the piece
_SPIN_LOOPS = 2_000
_SPIN_ROWS = 100
_SPIN_EVERY_S = 0.006
_SHARE = 50  # of single calls the quickest fiftieth counts
_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Figure(NamedTuple):
    """What 1,000 jobs cost: in spins, and in microseconds for each of them on this machine today."""

    spins: float
    microseconds: float


class Piece(NamedTuple):
    """What one job of a piece cost, here and in the server, and after how many spins."""

    client_s: float
    server_s: float
    spins: int


class Meter:
    """Takes the time of pieces of work, in this process and in the sessions of a PostgreSQL server on this machine."""

    def __init__(self, url: str) -> None:
        # The sessions of a server that was given may run on another machine.
        is_near = url.startswith("postgres") and "HOLDFAST_TEST_PG_DSN" not in os.environ
        self._watching = psycopg.connect(url, autocommit=True) if is_near else None
        self._pieces: dict[str, list[Piece]] = defaultdict(list)
        self._spins: dict[str, list[float]] = defaultdict(list)
        self._singles: set[str] = set()
        self._spin = Spin()
        self._name = ""
        self._pids: list[int] = []
        self._spun = 0.0
        self._began = (0.0, 0.0)

    def begin(self, name: str) -> None:
        """Begin to measure."""
        self._name = name
        self._take_spin()
        self._began = self._now()

    def piece(self, jobs: int) -> None:
        """End a piece of work on so many jobs, spin now and then, and begin the next piece."""
        client, server = ((now - began) / jobs for now, began in zip(self._now(), self._began, strict=True))
        self._pieces[self._name].append(Piece(client, server, len(self._spins[self._name])))
        if jobs == 1:
            self._singles.add(self._name)
        if time.process_time() - self._spun > _SPIN_EVERY_S:
            self._take_spin()
        self._began = self._now()

    def end(self) -> None:
        """End with a spin, so that the last piece has one on either side."""
        self._take_spin()

    def forget(self) -> None:
        """Forget what was measured."""
        self._pieces.clear()
        self._spins.clear()

    def figures(self) -> dict[str, Figure]:
        """Give what everything cost that was measured."""
        found: dict[str, Figure] = {}
        for name, pieces in self._pieces.items():
            found[name] = self._figure(name, [(piece.client_s, piece.spins) for piece in pieces])
            if self._watching is not None:
                server = [(piece.server_s, piece.spins) for piece in pieces if not math.isnan(piece.server_s)]
                found[f"{name}, server"] = self._figure(name, server)
        return found

    def _figure(self, name: str, pieces: list[tuple[float, int]]) -> Figure:
        spins, seconds = self._spins[name], [piece for piece, _ in pieces]
        if name in self._singles:
            ratio = _quickest(seconds) / _quickest(spins)
            return Figure(round(1_000 * ratio, 3), round(1_000_000 * _quickest(seconds), 1))
        ratio = statistics.median(2 * piece / (spins[after - 1] + spins[after]) for piece, after in pieces)
        return Figure(round(1_000 * ratio, 3), round(1_000_000 * statistics.median(seconds), 1))

    def _now(self) -> tuple[float, float]:
        # The clock of another process, numbered as the kernel does; /proc counts in hundredths of a second.
        try:
            server = sum(time.clock_gettime(~pid << 3 | 2) for pid in self._pids)
        except OSError:  # a session has ended, and its clock with it: of this piece the server's part is not known
            server = math.nan
        return time.process_time(), server

    def _take_spin(self) -> None:
        began = time.process_time()
        self._spin()
        self._spun = time.process_time()
        self._spins[self._name].append(self._spun - began)
        if self._watching is not None:
            self._pids = [pid for (pid,) in self._watching.execute(_BACKENDS).fetchall()]


class Spin:
    """A fixed piece of work, in Python, JSON and SQLite: never change it, for every figure is told in it."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute("CREATE TABLE spun (id INTEGER PRIMARY KEY, kind TEXT, payload TEXT, number INTEGER)")
        self._database.execute("CREATE INDEX spun_kind ON spun (kind, number)")

    def __call__(self) -> None:
        """Do it once."""
        kept: dict[str, tuple[int, list[str]]] = {}
        for number in range(_SPIN_LOOPS):
            name = f"name-{number % 997}"
            words = [name, str(number), name.upper()]
            kept[name] = (number, sorted(words))
            "|".join(words).split("|")
        for first in (0, _SPIN_ROWS):
            self._store(range(first, first + _SPIN_ROWS))
        asked = "SELECT payload FROM spun WHERE kind = 'kind-3' ORDER BY number"
        for (payload,) in self._database.execute(asked).fetchall():
            json.loads(payload)
        self._database.execute("DELETE FROM spun")

    def _store(self, numbers: range) -> None:
        payloads = (json.dumps({"to": f"ada-{number}", "n": number, "tags": ["a", "b"]}) for number in numbers)
        rows = [(number, f"kind-{number % 7}", text, number) for number, text in zip(numbers, payloads, strict=True)]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO spun VALUES (?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")


def _quickest(found: list[float]) -> float:
    return statistics.mean(sorted(found)[: max(len(found) // _SHARE, 4)])


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
        self.meter.end()

    async def _enqueue_single(self) -> None:
        self.meter.begin("enqueue one")
        for _ in range(SINGLE):
            await self.task.enqueue()
            self.meter.piece(1)
        self.meter.end()

    async def _enqueue_many(self) -> None:
        self.meter.begin("enqueue many")
        for _ in range(MANY // _BATCH):
            await self.app.enqueue_many([self.task.call() for _ in range(_BATCH)])
            self.meter.piece(_BATCH)
        self.meter.end()

    async def _claim(self, worker: int) -> list[JobRow]:
        claimed: list[JobRow] = []
        self.meter.begin("claim")
        for _ in range(MANY // _BATCH):
            claimed += await self.app.store.claim_jobs(claim_of(worker, lane(limit=_BATCH), limit=_BATCH))
            self.meter.piece(_BATCH)
        self.meter.end()
        return claimed

    async def _finish(self, claimed: list[JobRow]) -> None:
        assert len(claimed) == MANY
        self.meter.begin("finish")
        for start in range(0, MANY, _BATCH):
            ended = [completed(job.id, job.claim) for job in claimed[start : start + _BATCH]]
            await self.app.store.finish_jobs(ended)
            self.meter.piece(_BATCH)
        self.meter.end()


async def measure(url: str, schema: str) -> dict[str, Figure]:
    """Measure everything on a store that is migrated and empty."""
    meter = Meter(url)
    if url.startswith("postgres"):
        url += ("&" if "?" in url else "?") + "synchronous_commit=off"
    work = Work(Holdfast(url, schema=schema, synchronous="normal"), meter)
    async with work.app:
        await asyncio.gather(
            *(work.app.jobs.counts() for _ in range(20))
        )  # or the sessions of the pool come one by one
        await work.round()  # until everything is imported, prepared and in its cache
        meter.forget()
        gc.disable()
        for _ in range(ROUNDS):
            gc.collect()
            await work.round()
    assert work.ran == (1 + ROUNDS) * MANY
    return meter.figures()


if __name__ == "__main__":
    measured = asyncio.run(measure(*sys.argv[1:]))
    sys.stdout.write(json.dumps({name: figure._asdict() for name, figure in measured.items()}) + "\n")
