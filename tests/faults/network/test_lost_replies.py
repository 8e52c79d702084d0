"""The server has done it and the reply is lost: resolved as each verb's protocol says, never guessed."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from holdfast.errors import OutcomeUnknown
from holdfast.job import JobState, NewJob
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Inserted, Insertion, Verdict
from holdfast.transitions import Transition, cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support.connections import FAILURE, connected, expire, insert, new_job, register, request, running
from tests.support.proxy import INSERTS, Fault, Proxy
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

KEYS: dict[str, dict[str, object]] = {
    "plain": {},
    "keyed": {"key": "order 1"},
    "unique": {"unique": "page 1"},
    "unique for a time": {"unique": "page 1", "unique_for_ms": 60_000},
    "keyed and unique": {"key": "order 1", "unique": "page 1"},
}


async def rows(store: PostgresStore) -> int:
    """Count all jobs, live and finished."""
    return int((await store.fetch_sql("SELECT count(*) FROM holdfast.all_jobs"))[0][0])


async def insert_and_lose_the_reply(far: PostgresStore, proxy: Proxy, jobs: list[NewJob]) -> None:
    proxy.arm(Fault.CUT_REPLY, *INSERTS)
    with pytest.raises(OutcomeUnknown):
        await far.insert_jobs(jobs)


@pytest.mark.parametrize("finished", [False, True], ids=["still waiting", "finished meanwhile"])
@pytest.mark.parametrize("by", list(KEYS))
async def test_a_repeated_insert_makes_one_job(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, by: str, finished: bool
) -> None:
    (job_id,) = await far.take_ids(1)
    job = new_job(job_id, **KEYS[by])
    await insert_and_lose_the_reply(far, proxy, [job])
    if finished:
        (claimed,) = await postgres.claim_jobs(request(await register(postgres)))
        await postgres.finish_jobs([completed(job_id, claimed.claim)])
    assert await far.insert_jobs([job], again=True) == [Inserted(Insertion.CREATED, job_id)]
    assert await rows(postgres) == 1
    (now,) = await postgres.get_jobs([job_id])
    assert now.state is (JobState.COMPLETED if finished else JobState.QUEUED)


async def test_a_repeated_batch_makes_each_job_once(far: PostgresStore, postgres: PostgresStore, proxy: Proxy) -> None:
    fields = list(KEYS.values())
    for turn in range(size(3, 30)):
        ids = await far.take_ids(50)
        jobs = [
            new_job(job_id, **{name: f"{value} {turn} {n}" if isinstance(value, str) else value
                               for name, value in fields[n % len(fields)].items()})
            for n, job_id in enumerate(ids)
        ]  # fmt: skip
        await insert_and_lose_the_reply(far, proxy, jobs)
        if turn % 2:
            claimed = await postgres.claim_jobs(request(await register(postgres), 25))
            await postgres.finish_jobs([completed(job.id, job.claim) for job in claimed])
        answers = await far.insert_jobs(jobs, again=True)
        assert answers == [Inserted(Insertion.CREATED, job_id) for job_id in ids]
        assert await rows(postgres) == 50 * (turn + 1)


async def test_an_insert_that_met_an_existing_job_meets_it_again(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy
) -> None:
    first, second = await far.take_ids(2)
    await postgres.insert_jobs([new_job(first, unique="page 1")])
    again = new_job(second, unique="page 1", key="order 1")
    await insert_and_lose_the_reply(far, proxy, [again])
    assert await far.insert_jobs([again], again=True) == [Inserted(Insertion.EXISTING, first)]
    assert await rows(postgres) == 1


async def test_a_request_that_never_arrived_is_stored_by_its_repetition(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy
) -> None:
    (job_id,) = await far.take_ids(1)
    proxy.arm(Fault.CUT_BEFORE, *INSERTS)
    with pytest.raises(OutcomeUnknown):
        await far.insert_jobs([new_job(job_id, key="order 1")])
    assert await rows(postgres) == 0
    assert await far.insert_jobs([new_job(job_id, key="order 1")], again=True) == [Inserted(Insertion.CREATED, job_id)]
    assert await rows(postgres) == 1


@pytest.mark.parametrize("how", ["claim_jobs", "claim_jobs_by_id", "exchange_jobs"])
async def test_a_claim_whose_reply_was_lost_is_given_back(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, how: str
) -> None:
    ids = await insert(postgres, 10)
    before = await postgres.get_jobs(ids)
    worker = await register(far)
    claim = request(worker, 10)
    proxy.arm(Fault.CUT_REPLY, f".{how}(")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "claim_jobs": partial(far.claim_jobs, claim),
        "claim_jobs_by_id": partial(far.claim_jobs_by_id, claim, ids),
        "exchange_jobs": partial(far.finish_jobs, [], claim=claim),
    }
    with pytest.raises(OutcomeUnknown):
        await calls[how]()
    assert {job.state for job in await postgres.get_jobs(ids)} == {JobState.RUNNING}
    assert await far.give_back_batch(worker, claim.batch) == 10
    assert await far.give_back_batch(worker, claim.batch) == 0
    after = await postgres.get_jobs(ids)
    # Uncharged, and in their old places; only the number of the lost claim stays used up.
    assert [(job.id, job.position, job.attempt, job.claim) for job in sorted(after, key=lambda job: job.id)] == [
        (job.id, job.position, 0, 1) for job in sorted(before, key=lambda job: job.id)
    ]
    assert len(await far.claim_jobs(request(worker, 100))) == 10


ENDS: dict[str, tuple[Transition, JobState]] = {
    "complete": (completed(0, 1, '{"n": 1}'), JobState.COMPLETED),
    "complete with errors": (completed(0, 1, with_errors=True), JobState.COMPLETED_WITH_ERRORS),
    "fail": (failed(0, 1, FAILURE), JobState.FAILED),
    "retry at once": (retried(0, 1, FAILURE, 0), JobState.QUEUED),
    "retry later": (retried(0, 1, FAILURE, 60_000), JobState.SCHEDULED),
    "snooze": (snoozed(0, 1, 60_000), JobState.SCHEDULED),
    "interrupt": (interrupted(0, 1), JobState.QUEUED),
    "crash": (crashed(0, 1, FAILURE), JobState.QUEUED),
    "cancel": (cancelled(0, 1), JobState.CANCELLED),
}


def _aimed(end: Transition, job_id: int, claim: int) -> Transition:
    return Transition(
        id=job_id,
        claim=claim,
        verb=end.verb,
        state=end.state,
        delay_ms=end.delay_ms,
        result=end.result,
        failure=end.failure,
    )


@pytest.mark.parametrize("name", list(ENDS))
async def test_a_repeated_finish_knows_that_it_was_us(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, name: str
) -> None:
    (job,) = await running(postgres, 1)
    end, state = _aimed(ENDS[name][0], job.id, job.claim), ENDS[name][1]
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([end])
    for _ in range(2):
        (finish,) = (await far.finish_jobs([end])).finishes
        assert (finish.verdict, finish.state) == (Verdict.ALREADY, state)
    assert await rows(postgres) == 1


@pytest.mark.parametrize("name", [name for name, (_, state) in ENDS.items() if state is JobState.QUEUED])
async def test_a_repeated_finish_knows_it_even_when_the_job_runs_again(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, name: str
) -> None:
    (job,) = await running(postgres, 1)
    end = _aimed(ENDS[name][0], job.id, job.claim)
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([end])
    (again,) = await postgres.claim_jobs(request(await register(postgres)))
    (finish,) = (await far.finish_jobs([end])).finishes
    assert finish.verdict is Verdict.ALREADY
    assert (await postgres.finish_jobs([completed(job.id, again.claim)])).finishes[0].verdict is Verdict.DONE


@pytest.mark.parametrize("name", ["retry at once", "snooze", "interrupt", "crash"])
async def test_a_repeated_finish_of_a_job_that_was_to_be_cancelled(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, name: str
) -> None:
    """Its waiting became a cancellation; whoever sent it learns that it was accepted."""
    (job,) = await running(postgres, 1)
    await postgres.cancel_jobs([job.id], actor=None, reason=None)
    end = _aimed(ENDS[name][0], job.id, job.claim)
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([end])
    (finish,) = (await far.finish_jobs([end])).finishes
    assert (finish.verdict, finish.state) == (Verdict.ALREADY, JobState.CANCELLED)


async def test_a_repeated_crash_that_buried_the_job(far: PostgresStore, postgres: PostgresStore, proxy: Proxy) -> None:
    await insert(postgres, 1, max_crashes=2)
    worker = await register(postgres)
    (job,) = await postgres.claim_jobs(request(worker))
    await postgres.finish_jobs([crashed(job.id, job.claim, FAILURE)])
    (job,) = await postgres.claim_jobs(request(worker))
    end = crashed(job.id, job.claim, FAILURE)
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([end])
    (now,) = await postgres.get_jobs([job.id])
    assert now.state is JobState.FAILED
    (finish,) = (await far.finish_jobs([end])).finishes
    assert (finish.verdict, finish.state) == (Verdict.ALREADY, JobState.FAILED)


@pytest.mark.parametrize("name", ["fail", "cancel", "complete with errors"])
async def test_a_repeated_finish_after_a_manual_retry(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, name: str
) -> None:
    """The job has a new life when its old worker asks again: the old life's end was still ours."""
    (job,) = await running(postgres, 1)
    end = _aimed(ENDS[name][0], job.id, job.claim)
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([end])
    await postgres.retry_jobs([job.id])
    (finish,) = (await far.finish_jobs([end])).finishes
    assert finish.verdict is Verdict.ALREADY


async def test_a_job_that_was_taken_away_is_lost_and_not_already(
    far: PostgresStore, postgres: PostgresStore, dsn: str
) -> None:
    rescued, forced = await running(postgres, 2)
    await postgres.cancel_jobs([forced.id], actor=None, reason=None)
    assert await postgres.force_cancels(-1_000, 10) == (forced.id,)
    async with connected(dsn) as connection:
        await expire(connection, postgres.schema, [rescued.worker or 0])
    assert (await postgres.rescue_jobs(10)).requeued == (rescued.id,)
    ends = [completed(job.id, job.claim) for job in (rescued, forced)]
    assert [finish.verdict for finish in (await far.finish_jobs(ends)).finishes] == [Verdict.LOST] * 2


async def test_the_proof_that_an_earlier_send_is_looked_for(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, dsn: str
) -> None:
    """Without the second look the worker would take itself for a zombie (F5)."""
    (job,) = await running(postgres, 1)
    async with connected(dsn) as connection:
        await _forget_earlier_sends(connection, postgres.schema)
    proxy.arm(Fault.CUT_REPLY, ".exchange_jobs(")
    with pytest.raises(OutcomeUnknown):
        await far.finish_jobs([completed(job.id, job.claim)])
    assert (await far.finish_jobs([completed(job.id, job.claim)])).finishes[0].verdict is Verdict.LOST


async def _forget_earlier_sends(connection: Connection, schema: str) -> None:
    await connection.execute(
        in_schema(
            "CREATE OR REPLACE FUNCTION holdfast.accepted_before(p_id bigint, p_claim integer, p_verb text) "
            "RETURNS text LANGUAGE sql RETURN NULL",
            schema,
        )
    )
