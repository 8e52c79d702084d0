"""Rescue never takes a job from a worker that lives, however young the worker is."""

import asyncio

from holdfast.job import JobState
from holdfast.stores.values import Rescued, Verdict
from holdfast.transitions import completed
from tests.races.rivals import Rivals
from tests.support.connections import register, replace_function, request, running, until_held_up
from tests.support.sizes import size


async def rescue_against_new_claim(rivals: Rivals, rounds: int) -> list[str]:
    """Between the rescuer's look and its write the job is given back and claimed by a new worker."""
    wrong = []
    for turn in range(rounds):
        (job,) = await running(rivals.one, 1)
        await rivals.expire(job.worker)
        heir = await register(rivals.two)
        async with rivals.blocker.transaction():
            given_back = await rivals.blocker.fetchval(
                rivals.sql("SELECT holdfast.give_back_batch($1, $2)"), job.worker, job.claim_batch
            )
            assert given_back == 1
            # The rescuer still sees the job running under the dead worker, and waits for the row.
            sweep: asyncio.Task[Rescued] = asyncio.create_task(rivals.one.rescue_jobs(100))
            await until_held_up(rivals.watcher, rivals.schema, sweep)
            assert not sweep.done()
            claimed = await rivals.blocker.fetch(
                rivals.sql("SELECT * FROM holdfast.claim_jobs_by_id($1, $2, 1, $3)"),
                heir,
                request(heir).batch,
                [job.id],
            )
            assert len(claimed) == 1
        rescued = await sweep
        now = await rivals.now(job.id)
        if job.id in rescued.requeued or now is None or (now.state, now.worker) != (JobState.RUNNING, heir):
            wrong.append(f"round {turn}: {rescued}, now {now and (now.state, now.worker)}, heir {heir}")
            continue
        (finish,) = (await rivals.two.finish_jobs([completed(job.id, now.claim)])).finishes
        if finish.verdict is not Verdict.DONE:
            wrong.append(f"round {turn}: the heir's finish is {finish.verdict}")
    return wrong


async def test_a_job_claimed_anew_during_the_sweep_stays_with_its_worker(rivals: Rivals) -> None:
    assert await rescue_against_new_claim(rivals, size(20, 200)) == []


async def test_without_the_fence_the_sweep_takes_it(rivals: Rivals) -> None:
    await replace_function(
        rivals.watcher, rivals.schema, "finish_jobs", ("state = 'running' AND claim = t.fence", "state = 'running'")
    )
    assert await rescue_against_new_claim(rivals, 1)


async def test_a_worker_that_renews_in_time_is_not_marked_dead(rivals: Rivals) -> None:
    """The renewal holds the worker's row while the sweep looks at it."""
    for _ in range(size(20, 200)):
        (job,) = await running(rivals.one, 1)
        assert job.worker is not None
        await rivals.expire(job.worker)
        renewal, rescued = await asyncio.gather(
            rivals.one.renew_workers([job.worker], 60_000), rivals.two.rescue_jobs(100)
        )
        if job.worker in renewal.alive:
            # Renewed before the mark: nothing was taken. The mark may also come first: then it is not alive.
            assert job.id not in rescued.requeued
            assert (await rivals.two.rescue_jobs(100)).workers == 0
        else:
            assert rescued.requeued == (job.id,)
        await rivals.two.finish_jobs([completed(job.id, job.claim)])


async def test_a_claim_of_a_worker_that_is_gone_is_rescued(rivals: Rivals) -> None:
    """The claim had passed its check when the worker was declared dead and pruned (F4)."""
    (job,) = await running(rivals.one, 1)
    await rivals.watcher.execute(rivals.sql("DELETE FROM holdfast.workers WHERE id = $1"), job.worker)
    assert (await rivals.two.rescue_jobs(100)).requeued == (job.id,)


async def test_rescuers_share_the_work(rivals: Rivals) -> None:
    jobs = await running(rivals.one, size(200, 2_000))
    await rivals.expire(jobs[0].worker)
    sweeps = await asyncio.gather(*(store.rescue_jobs(100) for store in (rivals.one, rivals.two) * 2))
    found = [job_id for sweep in sweeps for job_id in sweep.requeued]
    assert len(found) == len(set(found))
    while sweep := (await rivals.one.rescue_jobs(100)).requeued:
        found += sweep
    assert sorted(found) == sorted(job.id for job in jobs)
    assert all(job.crashes == 1 for job in await rivals.one.get_jobs(found))
