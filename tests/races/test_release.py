"""A worker is released while others work on its jobs: each claim ends once, and nobody waits in a ring."""

import asyncio
from functools import partial

from holdfast.job import JobState
from holdfast.stores.values import Rescued, Verdict
from holdfast.transitions import completed, crashed
from tests.races.rivals import Rivals
from tests.support.connections import FAILURE, register, request, running, running_alone, until_held_up
from tests.support.sizes import size


async def test_a_finish_and_a_release_count_once(rivals: Rivals) -> None:
    wrong = []
    for turn, job in enumerate(await running_alone(rivals.one, size(200, 2_000))):
        assert job.worker is not None
        ends = [crashed(job.id, job.claim, FAILURE)] if turn // 2 % 2 else []
        worked, released = await rivals.meet(
            turn,
            job.id,
            partial(rivals.one.finish_jobs, [completed(job.id, job.claim)]),
            partial(rivals.two.release_worker, job.worker, ends),
        )
        now = await rivals.now(job.id)
        assert now is not None
        seen = (worked.finishes[0].verdict, job.id in released.requeued, now.state, now.crashes)
        if seen not in {
            (Verdict.DONE, False, JobState.COMPLETED, 0),
            (Verdict.LOST, True, JobState.QUEUED, len(ends)),
        }:
            wrong.append(f"round {turn}: {seen}")
        assert released.workers == 1
    assert wrong == []


async def test_releases_at_once_count_once(rivals: Rivals) -> None:
    for _ in range(size(20, 200)):
        jobs = await running(rivals.one, 5)
        worker = jobs[0].worker or 0
        ends = [crashed(job.id, job.claim, FAILURE) for job in jobs[:2]]
        found = await asyncio.gather(*(store.release_worker(worker, ends) for store in (rivals.one, rivals.two) * 2))
        assert sum(released.workers for released in found) == 1
        assert sorted(job_id for released in found for job_id in released.requeued) == sorted(job.id for job in jobs)
        after = {job.id: job.crashes for job in await rivals.one.get_jobs([job.id for job in jobs])}
        assert after == {job.id: int(job in jobs[:2]) for job in jobs}
        taken = await rivals.one.claim_jobs(request(await register(rivals.one), 5))
        await rivals.one.finish_jobs([completed(job.id, job.claim) for job in taken])


async def test_a_rescue_and_a_release_count_once(rivals: Rivals) -> None:
    for turn, job in enumerate(await running_alone(rivals.one, size(100, 1_000))):
        assert job.worker is not None
        await rivals.expire(job.worker)
        rescued, released = await rivals.meet(
            turn,
            job.id,
            partial(rivals.one.rescue_jobs, 100),
            partial(rivals.two.release_worker, job.worker, [crashed(job.id, job.claim, FAILURE)]),
        )
        now = await rivals.now(job.id)
        assert now is not None
        assert [job.id in found.requeued for found in (rescued, released)].count(True) == 1
        assert (rescued.workers + released.workers, now.state, now.crashes) == (1, JobState.QUEUED, 1)


async def test_a_job_claimed_anew_meanwhile_stays_with_its_worker(rivals: Rivals) -> None:
    """Between the look at what the worker holds and the write, a job is given back and claimed by another."""
    for _ in range(size(20, 200)):
        (job,) = await running(rivals.one, 1)
        heir = await register(rivals.two)
        async with rivals.blocker.transaction():
            await rivals.blocker.fetchval(
                rivals.sql("SELECT holdfast.give_back_batch($1, $2)"), job.worker, job.claim_batch
            )
            release: asyncio.Task[Rescued] = asyncio.create_task(
                rivals.one.release_worker(job.worker or 0, [crashed(job.id, job.claim, FAILURE)])
            )
            await until_held_up(rivals.watcher, rivals.schema, release)
            assert not release.done()
            claimed = await rivals.blocker.fetch(
                rivals.sql("SELECT * FROM holdfast.claim_jobs_by_id($1, $2, 1, $3)"),
                heir,
                request(heir).batch,
                [job.id],
            )
            assert len(claimed) == 1
        assert await release == Rescued(1, (), (), ())
        now = await rivals.now(job.id)
        assert now is not None
        assert (now.state, now.worker, now.crashes) == (JobState.RUNNING, heir, 0)
        await rivals.two.finish_jobs([completed(job.id, now.claim)])
