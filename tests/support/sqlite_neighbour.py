"""Processes that share one SQLite file: `python -m tests.support.sqlite_neighbour ROLE FILE ...`.

open FILE                        open (and migrate) the file, store and claim a job, sweep as upkeep does
write FILE SECONDS TURNSTILE     enqueue, claim and finish in batches as fast as possible
renew FILE SECONDS TURNSTILE     renew the lease of a worker every 50 ms
hold FILE SECONDS TIMES          hold SQLite's write lock, as a foreign program would
"""

import asyncio
import os
import sqlite3
import sys
import time

import msgspec

from holdfast.errors import StoreError
from holdfast.stores.sqlite import connection as connections
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.sqlite.turnstile import OpenTurnstile
from holdfast.transitions import completed
from tests.support.builders import claim, claim_of, enqueue, lane, new_jobs, register
from tests.support.programs import tell, wait_for_go

BATCH, AT_ONCE = 50, 3
LEASE_MS = 5_000
EVERY_SECONDS = 0.05
GAP_SECONDS = 0.25  # SQLite's own waiting looks again every 100 ms


class Wrote(msgspec.Struct):
    """What a writer managed, and the longest that one of its calls took."""

    jobs: int
    longest_ms: float


class Renewed(msgspec.Struct):
    """How long each renewal took, how often the worker was taken for dead, and the calls that failed."""

    took_ms: list[float]
    deaths: int
    failures: list[str]


class Opened(msgspec.Struct):
    """What a second process found and did."""

    job: int
    claimed: int
    rescued: int


class NoTurnstile(OpenTurnstile):
    """What Holdfast would be without a turnstile."""

    def __init__(self, path: str) -> None:
        pass


async def open_and_look(path: str) -> None:
    wait_for_go()
    store = SqliteStore(path)
    await store.open()
    job = await enqueue(store, queue="mine")
    worker = await register(store, instance=str(os.getpid()))
    await store.promote_jobs(100)
    rescued = await store.rescue_jobs(100)
    await store.keep_history(100)
    claimed = await claim(store, worker, lane("mine"))
    await store.retire_worker(worker)
    await store.close()
    tell(Opened(job, len(claimed), len(rescued.requeued) + len(rescued.failed)))


async def write(path: str, seconds: float) -> None:
    store = SqliteStore(path)
    await store.open()
    name = f"writer-{os.getpid()}"
    worker = await register(store, instance=name, lease_ms=60_000)
    wait_for_go()
    wrote, ends_at = Wrote(0, 0), time.monotonic() + seconds

    async def write_on() -> None:
        while (begun := time.monotonic()) < ends_at:
            await store.insert_jobs(await new_jobs(store, BATCH, queue=name))
            claimed = await store.claim_jobs(claim_of(worker, lane(name), limit=BATCH))
            await store.finish_jobs([completed(job.id, job.claim, "null") for job in claimed])
            wrote.jobs += len(claimed)
            wrote.longest_ms = max(wrote.longest_ms, (time.monotonic() - begun) * 1_000)

    await asyncio.gather(*(write_on() for _ in range(AT_ONCE)))
    tell(wrote)
    await store.close()


async def renew(path: str, seconds: float) -> None:
    store = SqliteStore(path)
    await store.open()
    worker = await register(store, lease_ms=LEASE_MS)
    wait_for_go()
    renewed, ends_at = Renewed([], 0, []), time.monotonic() + seconds
    while (begun := time.monotonic()) < ends_at:
        try:
            renewal = await store.renew_workers([worker], LEASE_MS)
            renewed.deaths += worker not in renewal.alive
        except StoreError as error:
            renewed.failures.append(f"{type(error).__name__}: {error}")
        renewed.took_ms.append((time.monotonic() - begun) * 1_000)
        await asyncio.sleep(EVERY_SECONDS)  # as often as many workers would renew
    tell(renewed)
    await store.close()


def hold(path: str, seconds: float, times: int) -> None:
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    wait_for_go()
    for _ in range(times):
        database.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)  # the fault itself: a lock that is held
        database.execute("COMMIT")
        time.sleep(GAP_SECONDS)  # so that waiting callers get the lock
    tell("done")
    database.close()


def main() -> None:
    role, path, *rest = sys.argv[1:]
    if role == "hold":
        hold(path, float(rest[0]), int(rest[1]))
    elif role == "open":
        asyncio.run(open_and_look(path))
    else:
        if rest[1] == "without":
            vars(connections)["FileTurnstile"] = NoTurnstile
        asyncio.run((write if role == "write" else renew)(path, float(rest[0])))


if __name__ == "__main__":
    main()
