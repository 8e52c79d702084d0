"""What may meet a finish: each scenario runs rounds and returns what went wrong in them.

A test asserts that nothing did, and another one removes a guard and asserts that the same scenario notices.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.values import Insertion, Verdict, Worked
from holdfast.transitions import completed, retried, snoozed
from tests.races.rivals import Rivals
from tests.support.connections import FAILURE, insert, new_job, register, request, running, running_alone

Scenario = Callable[[Rivals, int], Awaitable[list[str]]]


def _verdict(worked: Worked) -> Verdict:
    return worked.finishes[0].verdict


def _state(job: JobRow | None) -> JobState | None:
    return None if job is None else job.state


async def finish_against_rescue(rivals: Rivals, rounds: int) -> list[str]:
    """Either the finish counts or the rescue, never both, never neither."""
    wrong = []
    for turn, job in enumerate(await running_alone(rivals.one, rounds)):
        await rivals.expire(job.worker)
        finish = completed(job.id, job.claim)
        worked, rescued = await rivals.meet(
            turn, job.id, partial(rivals.one.finish_jobs, [finish]), partial(rivals.two.rescue_jobs, 100)
        )
        now = await rivals.now(job.id)
        seen = (_verdict(worked), job.id in rescued.requeued, _state(now))
        finish_won = seen == (Verdict.DONE, False, JobState.COMPLETED)
        rescue_won = seen == (Verdict.LOST, True, JobState.QUEUED) and now is not None and now.crashes == 1
        if not finish_won and not rescue_won:
            wrong.append(f"round {turn}: finish {seen[0]}, rescued {seen[1]}, now {seen[2]}")
    return wrong


async def zombie_against_new_claim(rivals: Rivals, rounds: int) -> list[str]:
    """A worker whose job was rescued and claimed by another changes nothing any more."""
    wrong = []
    heir = await register(rivals.two)
    for turn, job in enumerate(await running_alone(rivals.one, rounds)):
        await rivals.expire(job.worker)

        async def rescue_and_claim(job_id: int = job.id) -> list[JobRow]:
            await rivals.two.rescue_jobs(100)
            return await rivals.two.claim_jobs_by_id(request(heir), [job_id])

        late = completed(job.id, job.claim, '"zombie"')
        worked, claimed = await rivals.meet(turn, job.id, partial(rivals.one.finish_jobs, [late]), rescue_and_claim)
        if _verdict(worked) is Verdict.DONE and claimed:
            wrong.append(f"round {turn}: finished by the zombie and claimed by its heir")
        if claimed:
            again = await rivals.one.finish_jobs([late])
            own = await rivals.two.finish_jobs([completed(job.id, claimed[0].claim, '"heir"')])
            if (_verdict(again), _verdict(own)) != (Verdict.LOST, Verdict.DONE):
                wrong.append(f"round {turn}: zombie {_verdict(again)}, heir {_verdict(own)}")
    return wrong


async def finish_against_cancel(rivals: Rivals, rounds: int) -> list[str]:
    """A completion stays; a retry or a snooze of a job whose cancel was acknowledged does not run again."""
    wrong = []
    ends = (
        lambda job: completed(job.id, job.claim),
        lambda job: retried(job.id, job.claim, FAILURE, 0),
        lambda job: snoozed(job.id, job.claim, 60_000),
    )
    for turn, job in enumerate(await running(rivals.one, rounds)):
        end = ends[turn // 2 % 3](job)
        worked, (answered,) = await rivals.meet(
            turn,
            job.id,
            partial(rivals.one.finish_jobs, [end]),
            partial(rivals.two.cancel_jobs, [job.id], actor="ops", reason=None),
        )
        now = _state(await rivals.now(job.id))
        if end.verb == "complete":
            right = now is JobState.COMPLETED and answered.answer in {Answer.REQUESTED, Answer.WRONG_STATE}
        else:
            right = now is JobState.CANCELLED and answered.answer in {Answer.REQUESTED, Answer.DONE}
        if not right or _verdict(worked) is not Verdict.DONE:
            wrong.append(f"round {turn}: {end.verb} {_verdict(worked)}, cancel {answered.answer}, now {now}")
    return wrong


async def zombie_against_manual_retry(rivals: Rivals, rounds: int) -> list[str]:
    """A zombie of an earlier life is refused, whatever the new life is doing."""
    wrong = []
    jobs = await running(rivals.one, rounds)
    ids = [job.id for job in jobs]
    await rivals.one.cancel_jobs(ids, actor=None, reason=None)
    assert len(await rivals.one.force_cancels(-1_000, rounds)) == rounds
    heir = await register(rivals.two)
    for turn, job in enumerate(jobs):

        async def retry_and_claim(job_id: int = job.id) -> list[JobRow]:
            (answered,) = await rivals.two.retry_jobs([job_id])
            assert answered.answer is Answer.DONE
            return await rivals.two.claim_jobs_by_id(request(heir), [job_id])

        late = completed(job.id, job.claim, '"zombie"')
        worked, claimed = await rivals.meet(turn, job.id, partial(rivals.one.finish_jobs, [late]), retry_and_claim)
        again = await rivals.one.finish_jobs([late])
        if (_verdict(worked), _verdict(again)) != (Verdict.LOST, Verdict.LOST) or len(claimed) != 1:
            wrong.append(f"round {turn}: zombie {_verdict(worked)}, then {_verdict(again)}, claimed {len(claimed)}")
            continue
        (new,) = claimed
        own = await rivals.two.finish_jobs([completed(job.id, new.claim, '"heir"')])
        if new.claim <= job.claim or new.life != 2 or _verdict(own) is not Verdict.DONE:
            wrong.append(f"round {turn}: claim {new.claim}, life {new.life}, heir {_verdict(own)}")
    return wrong


async def finish_against_delete(rivals: Rivals, rounds: int) -> list[str]:
    """A live job is refused with its live state, a finished one is deleted; it is never "not found"."""
    wrong = []
    for turn, job in enumerate(await running(rivals.one, rounds)):
        worked, (answered,) = await rivals.meet(
            turn,
            job.id,
            partial(rivals.one.finish_jobs, [completed(job.id, job.claim)]),
            partial(rivals.two.delete_jobs, [job.id]),
        )
        now = _state(await rivals.now(job.id))
        deleted = answered.answer is Answer.DONE and now is None
        refused = (answered.answer, answered.state, now) == (
            Answer.WRONG_STATE,
            JobState.RUNNING,
            JobState.COMPLETED,
        )
        if _verdict(worked) is not Verdict.DONE or not (deleted or refused):
            wrong.append(f"round {turn}: {_verdict(worked)}, {answered.answer} ({answered.state}), now {now}")
    return wrong


async def finish_against_unique_insert(rivals: Rivals, rounds: int) -> list[str]:
    """The unique key is freed exactly at the end: two jobs never hold it, and none is turned away for nothing."""
    wrong = []
    worker = await register(rivals.one)
    ids = await rivals.one.take_ids(rounds * 2)
    await rivals.one.insert_jobs([new_job(job_id, unique=f"page {n}") for n, job_id in enumerate(ids[:rounds])])
    jobs = await rivals.one.claim_jobs(request(worker, rounds))
    live = rivals.sql("SELECT id FROM holdfast.jobs WHERE unique_key = $1")
    for turn, (job, other) in enumerate(zip(jobs, ids[rounds:], strict=True)):
        worked, (inserted,) = await rivals.meet(
            turn,
            job.id,
            partial(rivals.one.finish_jobs, [completed(job.id, job.claim)]),
            partial(rivals.two.insert_jobs, [new_job(other, unique=job.unique_key)]),
        )
        holders = [row[0] for row in await rivals.watcher.fetch(live, job.unique_key)]
        created = (inserted.outcome, inserted.id, holders) == (Insertion.CREATED, other, [other])
        met = (inserted.outcome, inserted.id, holders) == (Insertion.EXISTING, job.id, [])
        if _verdict(worked) is not Verdict.DONE or not (created or met):
            wrong.append(f"round {turn}: {_verdict(worked)}, {inserted}, held by {holders}")
    return wrong


async def unique_insert_while_live(rivals: Rivals, rounds: int) -> list[str]:
    """Two inserts of one unique key: one is created, the other is given the first."""
    wrong = []
    ids = await rivals.one.take_ids(rounds * 2)
    live = rivals.sql("SELECT id FROM holdfast.jobs WHERE unique_key = $1")
    for turn, (left, right) in enumerate(zip(ids[::2], ids[1::2], strict=True)):
        key = f"page {turn}"
        (one,), (two,) = await rivals.meet(
            turn,
            left,
            partial(rivals.one.insert_jobs, [new_job(left, unique=key)]),
            partial(rivals.two.insert_jobs, [new_job(right, unique=key)]),
        )
        holders = [row[0] for row in await rivals.watcher.fetch(live, key)]
        outcomes = sorted([one.outcome, two.outcome])
        if outcomes != [Insertion.CREATED, Insertion.EXISTING] or holders != [one.id] or one.id != two.id:
            wrong.append(f"round {turn}: {one}, {two}, held by {holders}")
    return wrong


async def keyed_insert_that_finishes(rivals: Rivals, rounds: int) -> list[str]:
    """A keyed job that runs and ends while the same request comes again: one job."""
    wrong = []
    worker = await register(rivals.one)
    ids = await rivals.one.take_ids(rounds * 2)
    for turn, (left, right) in enumerate(zip(ids[::2], ids[1::2], strict=True)):
        await rivals.one.insert_jobs([new_job(left, key=f"order {turn}")])
        (job,) = await rivals.one.claim_jobs(request(worker))
        _, (inserted,) = await rivals.meet(
            turn,
            left,
            partial(rivals.one.finish_jobs, [completed(job.id, job.claim)]),
            partial(rivals.two.insert_jobs, [new_job(right, key=f"order {turn}")]),
        )
        if (inserted.outcome, inserted.id) != (Insertion.EXISTING, left) or await rivals.now(right) is not None:
            wrong.append(f"round {turn}: {inserted}")
    return wrong


async def claim_against_cancel(rivals: Rivals, rounds: int) -> list[str]:
    """A waiting job is cancelled or claimed; when both, its worker is told."""
    wrong = []
    worker = await register(rivals.one)
    for turn, job_id in enumerate(await insert(rivals.one, rounds)):
        claimed, (answered,) = await rivals.meet(
            turn,
            job_id,
            partial(rivals.one.claim_jobs_by_id, request(worker), [job_id]),
            partial(rivals.two.cancel_jobs, [job_id], actor=None, reason=None),
        )
        now = await rivals.now(job_id)
        marked = bool(claimed) and _state(now) is JobState.RUNNING and now is not None and now.cancel_requested_at
        right = marked if answered.answer is Answer.REQUESTED else not claimed and _state(now) is JobState.CANCELLED
        if not right:
            wrong.append(f"round {turn}: claimed {len(claimed)}, {answered.answer}, now {_state(now)}")
    return wrong


SCENARIOS: tuple[Scenario, ...] = (
    finish_against_rescue,
    zombie_against_new_claim,
    finish_against_cancel,
    zombie_against_manual_retry,
    finish_against_delete,
    finish_against_unique_insert,
    unique_insert_while_live,
    keyed_insert_that_finishes,
    claim_against_cancel,
)
