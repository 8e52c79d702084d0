"""A writer that is killed: `python -m tests.faults.store.writer` reads runs from its input and reports each.

Each run is a forked child with an app of its own that enqueues, claims and finishes as fast as it can. What was
acknowledged goes into a ledger that is on disk before anything else happens.
"""

import asyncio
import functools
import os
import random
import sys
from typing import Any, Literal

import msgspec

from holdfast.app import Holdfast
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Claim, Lane, WorkerProcess
from holdfast.tasks.task import Task
from holdfast.transitions import completed
from tests.support.forks import Say, run_child
from tests.support.programs import tell

AnyStore = PostgresStore | SqliteStore


class Run(msgspec.Struct):
    """Where a child writes, and how long it may."""

    address: str
    schema: str | None  # None: a SQLite file
    ledger: str
    seed: int
    killed_after_ms: float
    largest_batch: int
    counts_from: Literal["the start", "the first answer"] = "the first answer"


class Ran(msgspec.Struct):
    """How it ended."""

    was_killed: bool
    failures: list[str]


class Ledger:
    """What was acknowledged, on disk."""

    def __init__(self, path: str, say: Say) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._say: Say | None = say

    def write(self, what: str, ids: list[int]) -> None:
        if ids:
            os.write(self._file, f"{what} {' '.join(map(str, ids))}\n".encode())
            os.fsync(self._file)
            if self._say is not None:
                self._say("acknowledged")
                self._say = None


def make_store(address: str, schema: str | None) -> AnyStore:
    return SqliteStore(address) if schema is None else PostgresStore(address, schema=schema)


async def enqueue_singly(keep: Task[[int, int, str], Any], ledger: Ledger) -> None:
    while True:
        job = await keep.enqueue(1, 1, "x" * 100)
        ledger.write("stored", [job.number or 0])


async def enqueue_in_bulk(app: Holdfast, keep: Task[[int, int, str], Any], ledger: Ledger, run: Run) -> None:
    chance = random.Random(run.seed)
    while True:
        batch, count = chance.randrange(2**48), chance.randint(2, run.largest_batch)
        jobs = await app.enqueue_many([keep.call(batch, count, "y" * chance.randint(0, 1_000)) for _ in range(count)])
        ledger.write("stored", [job.number or 0 for job in jobs])


async def work(store: AnyStore, ledger: Ledger) -> None:
    pid = os.getpid()
    worker = await store.register_worker(WorkerProcess(instance=f"writer-{pid}", host="here", pid=pid), 5_000)
    batch = 0
    while True:
        batch += 1
        jobs = await store.claim_jobs(Claim(worker, batch, 20, (Lane("default", 5, 20),)))
        await store.finish_jobs([completed(job.id, job.claim, '"done"') for job in jobs])
        ledger.write("finished", [job.id for job in jobs])


async def write(run: Run, say: Say) -> None:
    app = Holdfast("sqlite://")

    @app.task
    async def keep(batch: int, count: int, filling: str) -> None: ...

    store, ledger = make_store(run.address, run.schema), Ledger(run.ledger, say)
    if run.counts_from == "the start":
        say("started")
    async with app.open_on(store), asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(enqueue_singly(keep, ledger))
        tasks.create_task(enqueue_in_bulk(app, keep, ledger, run))
        tasks.create_task(work(store, ledger))


def write_here(run: Run, say: Say) -> None:
    asyncio.run(write(run, say))


def main() -> None:
    for line in sys.stdin:
        run = msgspec.json.decode(line, type=Run)
        ended = run_child(functools.partial(write_here, run), run.killed_after_ms)
        tell(Ran(ended.was_killed, ended.rest("failure")))


if __name__ == "__main__":
    main()
