"""Many claimers on the same lanes: no job twice, none forgotten, never more than asked."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from holdfast.job import JobRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Claim, Lane
from holdfast.transitions import completed
from tests.support.connections import insert, new_job, register, replace_function, request
from tests.support.sizes import size

CLAIMERS = 16
_LANES = (("fast", 0), ("default", 3), ("default", 5))


@pytest.fixture
async def crowd(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store with a connection for each claimer."""
    store = PostgresStore(dsn, schema=schema, pool_size=CLAIMERS, deadline=30)
    await store.open()
    yield store
    await store.close()


async def drain(store: PostgresStore, jobs: int, batch: int) -> list[str]:
    """Let all claimers take jobs from three lanes until none is left, and say what went wrong."""
    ids = await store.take_ids(jobs)
    lanes = [_LANES[n % 3] for n in range(jobs)]
    await store.insert_jobs(
        [new_job(job_id, queue=queue, priority=priority) for job_id, (queue, priority) in zip(ids, lanes, strict=True)]
    )
    taken: Counter[int] = Counter()
    wrong: list[str] = []

    async def claimer(number: int) -> None:
        worker, held = await register(store), list[JobRow]()
        # Lanes may offer more than is asked for in all.
        lanes = tuple(Lane(queue, priority, batch) for queue, priority in _LANES)
        while True:
            claim = Claim(worker, request(worker).batch, batch, lanes)
            if number % 2:  # every other claimer finishes what it has in the same call
                ends = [completed(job.id, job.claim) for job in held]
                held = (await store.finish_jobs(ends, claim=claim)).claimed
            else:
                held = await store.claim_jobs(claim)
            taken.update(job.id for job in held)
            if len(held) > batch:
                wrong.append(f"asked for {batch}, got {len(held)}")
            wrong.extend(f"job {job.id} has claim {job.claim}" for job in held if job.claim != 1)
            if not held:
                return

    await asyncio.gather(*(claimer(number) for number in range(CLAIMERS)))
    wrong += [f"job {job_id} taken {times} times" for job_id, times in taken.items() if times > 1]
    wrong += [f"job {job_id} never taken" for job_id in set(ids) - set(taken)]
    return wrong


@pytest.mark.parametrize("batch", [1, 10, 100])
async def test_no_job_is_claimed_twice_and_none_is_left(crowd: PostgresStore, batch: int) -> None:
    assert await drain(crowd, size(2_000, 20_000), batch) == []


async def test_without_row_locks_a_job_is_claimed_twice(crowd: PostgresStore, caller: Connection) -> None:
    await replace_function(caller, crowd.schema, "claim_jobs", ("FOR UPDATE SKIP LOCKED", ""))
    assert await drain(crowd, 400, 10)


async def test_claimers_by_id_never_share_a_job(crowd: PostgresStore) -> None:
    ids = await insert(crowd, size(200, 2_000))

    async def claimer() -> list[int]:
        worker = await register(crowd)
        return [
            job.id
            for n in range(0, len(ids), 20)
            for job in await crowd.claim_jobs_by_id(request(worker, 20), ids[n : n + 20])
        ]

    taken = [job_id for one in await asyncio.gather(*(claimer() for _ in range(4))) for job_id in one]
    assert sorted(taken) == sorted(ids)


async def test_a_claim_by_id_takes_no_more_than_its_limit(postgres: PostgresStore) -> None:
    ids = await insert(postgres, 20)
    claimed = await postgres.claim_jobs_by_id(request(await register(postgres), 7), ids)
    assert [job.id for job in claimed] == ids[:7]
