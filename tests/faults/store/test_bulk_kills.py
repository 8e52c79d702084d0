"""A process is killed between and within batches of a bulk operation; the next goes on, and no job is done twice."""

import os
import signal
import subprocess
import sys

import pytest

from holdfast.delivery.in_store import InStore
from holdfast.job import JobState
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.bulk import BulkService
from holdfast.stores.bulk import NewBulk
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import JobFilter
from holdfast.transitions import failed
from tests.support.connections import FAILURE, register, request, running
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

JOBS = 60
PROGRAM = """
import asyncio, sys
from holdfast.delivery.in_store import InStore
from holdfast.services.bulk import BulkService
from holdfast.stores.postgres.store import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1], schema=sys.argv[2])
    await store.open()
    serving = BulkService(store, InStore(store))
    while (await serving.run(5)).has_more:
        pass

asyncio.run(main())
"""
KILLS = ("after_store_call:kill@7", "before_store_call:kill@8", "before_store_call:kill@7", "after_store_call:kill@8")


async def test_a_run_goes_on_after_every_kill(postgres: PostgresStore, dsn: str, schema: str) -> None:
    jobs = await running(postgres, JOBS)
    await postgres.finish_jobs([failed(job.id, job.claim, FAILURE) for job in jobs])
    which = JobFilter(states=(JobState.FAILED,))
    run = await postgres.start_bulk(NewBulk(key="k", verb=BulkVerb.RETRY, which=which, expected=JOBS))
    for kill in KILLS[: size(2, 4)]:
        env = {**os.environ, "HOLDFAST_FAILPOINTS": kill}
        killed = subprocess.run([sys.executable, "-c", PROGRAM, dsn, schema], env=env, check=False, timeout=60)
        assert killed.returncode == -signal.SIGKILL
        # What was done is what is counted, wherever the process died.
        (seen,) = await postgres.list_bulk(1, run=run.id)
        lives = [job.life for job in await postgres.get_jobs([job.id for job in jobs])]
        assert (seen.state, seen.done, seen.refused) == (BulkState.RUNNING, lives.count(2), 0)
        assert 0 < seen.done < JOBS
        # Those that were replayed fail again, and are not replayed once more.
        again = await postgres.claim_jobs(request(await register(postgres), JOBS))
        await postgres.finish_jobs([failed(job.id, job.claim, FAILURE) for job in again])
    serving = BulkService(postgres, InStore(postgres))
    while (await serving.run(5)).has_more:
        pass
    (ended,) = await postgres.list_bulk(1, run=run.id)
    assert (ended.state, ended.done, ended.refused) == (BulkState.ENDED, JOBS, 0)
    assert {job.life for job in await postgres.get_jobs([job.id for job in jobs])} == {2}
