"""Jobs fail while two fold what failed, and two work on one bulk operation: every failure and batch counts once."""

import asyncio

from holdfast.delivery.in_store import InStore
from holdfast.job import JobRow, JobState
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.bulk import BulkService
from holdfast.stores.bulk import NewBulk
from holdfast.stores.failures import DeadFilter
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import JobFilter
from holdfast.transitions import failed
from tests.races.rivals import Rivals
from tests.support.connections import FAILURE, running
from tests.support.sizes import size

FAILED = JobFilter(states=(JobState.FAILED,))


async def fail(store: PostgresStore, jobs: list[JobRow]) -> None:
    """Let jobs fail, a few in each commit."""
    for start in range(0, len(jobs), 7):
        await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in jobs[start : start + 7]])


async def test_every_failure_is_counted_once(rivals: Rivals) -> None:
    jobs = await running(rivals.one, size(200, 5_000))
    is_over = False

    async def fold(store: PostgresStore) -> int:
        folded = 0
        while not is_over:
            folded += await store.fold_failures(5)
            await asyncio.sleep(0)
        return folded

    async def watch() -> None:
        """No moment at which a failure is counted twice, or one that was seen is gone."""
        seen = 0
        while not is_over:
            found = (await rivals.one.list_dead_letters(DeadFilter(), limit=10)).groups
            now = found[0].seen if found else 0
            assert seen <= now <= len(jobs)
            seen = now

    folding = [asyncio.create_task(fold(store)) for store in (rivals.one, rivals.two)]
    watching = asyncio.create_task(watch())
    half = len(jobs) // 2
    await asyncio.gather(fail(rivals.one, jobs[:half]), fail(rivals.two, jobs[half:]))
    is_over = True
    folded = sum(await asyncio.gather(*folding))
    await watching
    while more := await rivals.one.fold_failures(1_000):
        folded += more
    assert folded == len(jobs)
    (group,) = (await rivals.two.list_dead_letters(DeadFilter(), limit=10)).groups
    assert (group.seen, group.left) == (len(jobs), len(jobs))


async def test_two_leaders_replay_every_job_once(rivals: Rivals) -> None:
    jobs = await running(rivals.one, size(120, 1_000))
    await fail(rivals.one, jobs)
    run = await rivals.one.start_bulk(NewBulk(key="k", verb=BulkVerb.RETRY, which=FAILED, expected=len(jobs)))

    async def lead(store: PostgresStore) -> int:
        serving, moved = BulkService(store, InStore(store)), 0
        while (done := await serving.run(5)).has_more:
            moved += done.moved
        return moved

    moved = await asyncio.gather(lead(rivals.one), lead(rivals.two))
    assert sum(moved) == len(jobs)
    (ended,) = await rivals.one.list_bulk(1, run=run.id)
    assert (ended.state, ended.done, ended.refused) == (BulkState.ENDED, len(jobs), 0)
    assert {job.life for job in await rivals.one.get_jobs([job.id for job in jobs])} == {2}
