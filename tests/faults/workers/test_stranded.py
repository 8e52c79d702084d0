"""Rows of workers vanish and dead workers claim: no job stays behind with an owner that is not there."""

import asyncio
import random
import signal
import sqlite3
import time
from collections.abc import Sequence

import pytest

from holdfast.job import JobState
from holdfast.stores.sql import in_schema
from tests.faults.workers.looking import is_stopped, running
from tests.faults.workers.stopping import go_on, stop
from tests.support.connections import connected, replace_function
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.groups import send
from tests.support.oracle import Oracle, all_ended
from tests.support.pace import every
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

JOBS = size(120, 2_000)
SECONDS = size(2, 20)
LEASE_S = 1.0


async def delete_workers(place: Place, condition: str) -> int:
    """Delete rows of workers, as no verb of the store would."""
    if place.is_sqlite:
        connection = sqlite3.connect(place.folder / "jobs.db", timeout=10, isolation_level=None)
        try:
            return connection.execute(f"DELETE FROM holdfast_workers WHERE {condition}").rowcount
        finally:
            connection.close()
    async with connected(place.url) as own:
        tag: str = await own.execute(in_schema(f"DELETE FROM holdfast.workers WHERE {condition}", place.schema))
        return int(tag.rpartition(" ")[2])


@pytest.mark.timeout(150)
async def test_rows_of_workers_can_vanish_at_any_time(place: Place, chance: random.Random) -> None:
    groups = [place.start("--processes", "2", CHAOS_LEASE="2") for _ in range(2)]
    await place.arrived(4)
    feed = Feed(place, longest_ms=30, kinds=[("effect", "effects"), ("plain", "default")])
    feeding = asyncio.create_task(feed.serve(JOBS, SECONDS))
    deleted = kills = turn = 0
    end = time.monotonic() + SECONDS

    def goes_on() -> bool:
        # Until that was often enough: on a busy machine those that were killed take their time to come again.
        return time.monotonic() < end or kills < SECONDS or deleted <= SECONDS // 2

    async for _ in every(0.5, goes_on):
        turn += 1
        kills += chance.choice(groups).kill_child() is not None
        deleted += await delete_workers(place, "dead_at IS NOT NULL")
        if turn % 5 == 2:  # also one that lives and holds jobs
            rows = [row for row in await place.store.list_workers() if row.dead_at is None]
            deleted += await delete_workers(place, f"id = {chance.choice(rows).id}") if rows else 0
    await feeding
    jobs = await all_ended(place.store, feed.accepted)
    oracle = Oracle(jobs, place.notes(), await place.effects())
    oracle.check(feed.accepted)
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    assert deleted > SECONDS // 2
    assert kills >= SECONDS
    assert all(group.process.poll() is None for group in groups)
    show(f"{deleted} rows of workers deleted, {kills} kills, {oracle.lease_ends} claims taken from nobody")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "is_refused", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["guarded", "the dead may claim"]
)
async def test_a_worker_that_was_declared_dead_and_pruned_claims_nothing(place: Place, is_refused: bool) -> None:
    """It stands still just before it sends a claim, and goes on when nobody knows it any more."""
    if not is_refused:
        await let_the_dead_claim(place)
    stopped = place.folder / "stopped"
    holes = "deaf stopping" if is_refused else "deaf stopping claiming"
    env = {"CHAOS_LEASE": str(LEASE_S), "CHAOS_STOPPED": str(stopped)}
    victim = place.start("--concurrency", "4", app="tests.faults.workers.holed:app", CHAOS_HOLES=holes, **env)
    await until(lambda: stopped.exists() and is_stopped(victim.children[0]), "it stands still before a claim")
    victim.signal(signal.SIGSTOP)
    other = place.start("--concurrency", "4", CHAOS_LEASE=str(LEASE_S))
    await place.arrived(1)

    async def is_pruned() -> bool:
        return await delete_workers(place, "dead_at IS NOT NULL") > 0

    await until(is_pruned, "it is declared dead, and its row is gone")
    # Nobody else claims for a moment, so that the dead one finds something.
    (child,) = victim.children
    others = [other.pid, *other.children]
    await stop(place, others)
    ids = await place.enqueue("plain", "default", ['{"ms": 100}'] * 5)
    send(child, signal.SIGCONT)

    async def has_gone_on() -> bool:
        return bool(await running_jobs(place, ids)) or "declared dead" in victim.said()

    await until(has_gone_on, "it has sent its claim")
    held = await running_jobs(place, ids)
    assert bool(held) != is_refused, held
    assert not running(place.notes(), [child]), "it cannot trust its lease, and begins nothing"
    send(child, signal.SIGKILL)
    victim.close()
    go_on(others)
    jobs = await all_ended(place.store, ids)
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    assert all(job.state is JobState.COMPLETED for job in jobs.values()), "rescue takes what nobody living owns"


async def running_jobs(place: Place, ids: Sequence[int]) -> list[int]:
    """Those of the jobs that somebody has claimed."""
    return [job.id for job in await place.store.get_jobs(ids) if job.state is JobState.RUNNING]


async def let_the_dead_claim(place: Place) -> None:
    """Remove the store's question whether the worker that claims is alive, on PostgreSQL."""
    if not place.is_sqlite:
        async with connected(place.url) as own:
            await replace_function(own, place.schema, "require_worker", ("IF NOT EXISTS", "IF false AND NOT EXISTS"))
