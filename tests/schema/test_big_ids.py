"""Ids fill sixty bits: far beyond what a double can hold, they survive every verb and JSON."""

import asyncpg
import msgspec
import pytest

from holdfast import public_id
from holdfast.errors import StoreError
from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Claim, Insertion, JobFilter, Lane, ProgressReport, Started, Verdict
from holdfast.transitions import completed, failed, retried, snoozed
from tests.support.connections import FAILURE, expire, insert, new_job, register, request

LARGEST = 2**60 - 1


async def start_at(dsn: str, schema: str, tag: int, last: int) -> None:
    """Let the store's next id be a large one."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(in_schema("UPDATE holdfast.meta SET value = $1 WHERE key = 'store_tag'", schema), str(tag))
    await connection.execute(f"SELECT setval('{schema}.job_id_seq', {last})")
    await connection.close()


@pytest.mark.parametrize("tag, last", [(4095, 2**47), (1, 2**47), (0, 2**47 + 64), (2048, 64)])
async def test_large_ids_survive_every_verb(postgres: PostgresStore, dsn: str, tag: int, last: int) -> None:
    await start_at(dsn, postgres.schema, tag, last)
    ids = await insert(postgres, 8)
    assert ids == [(tag << 48) + last + 64 + step for step in range(8)]
    assert max(ids) <= LARGEST
    worker = await register(postgres)

    claimed = await postgres.claim_jobs(request(worker, 2))
    claimed += await postgres.claim_jobs_by_id(request(worker, 6), ids[2:])
    assert [job.id for job in claimed] == ids
    assert await postgres.start_jobs([Started(job.id, job.claim, 1) for job in claimed]) == [Verdict.DONE] * 8
    reports = [ProgressReport(job.id, job.claim, 1.0, data=f'{{"id": {job.id}}}') for job in claimed]
    assert await postgres.save_progress(reports) == [Verdict.DONE] * 8

    ends = [
        completed(ids[0], 1, f'{{"id": {ids[0]}}}'),
        failed(ids[1], 1, FAILURE),
        retried(ids[2], 1, FAILURE, 0),
        snoozed(ids[3], 1, 60_000),
    ]
    for verdict in (Verdict.DONE, Verdict.ALREADY):
        assert [finish.verdict for finish in (await postgres.finish_jobs(ends)).finishes] == [verdict] * 4
    jobs = {job.id: job for job in await postgres.get_jobs(ids)}
    assert sorted(jobs) == ids
    assert jobs[ids[0]].result == {"id": ids[0]}
    progress = jobs[ids[4]].progress
    assert progress is not None
    assert progress.data == {"id": ids[4]}

    assert [one.answer for one in await postgres.retry_jobs([ids[1]])] == [Answer.DONE]
    assert [one.answer for one in await postgres.cancel_jobs([ids[1], ids[4]], actor=None, reason=None)] == [
        Answer.DONE,
        Answer.REQUESTED,
    ]
    assert await postgres.force_cancels(-1_000, 10) == (ids[4],)
    assert [one.answer for one in await postgres.reschedule_jobs([ids[2]], run_at=None, delay_ms=-1)] == [Answer.DONE]
    assert [one.answer for one in await postgres.reprioritise_jobs([ids[2]], 1)] == [Answer.DONE]
    assert {held.id for held in (await postgres.renew_workers([worker], 60_000)).held} == {ids[5], ids[6], ids[7]}
    connection = await asyncpg.connect(dsn)
    await expire(connection, postgres.schema, [worker])
    await connection.close()
    assert set((await postgres.rescue_jobs(10)).requeued) == {ids[5], ids[6], ids[7]}
    listed: list[JobRow] = []
    page = await postgres.list_jobs(JobFilter(), limit=3)
    while True:
        listed += page.jobs
        if page.next is None:
            break
        page = await postgres.list_jobs(JobFilter(), limit=3, after=page.next)
    assert sorted(job.id for job in listed) == ids
    assert [one.answer for one in await postgres.delete_jobs([ids[0]])] == [Answer.DONE]


async def test_large_ids_survive_json(postgres: PostgresStore, dsn: str) -> None:
    await start_at(dsn, postgres.schema, 4095, 2**47)
    (job_id,) = await insert(postgres, 1)
    assert job_id > 2**53
    shown = public_id.encode(job_id)
    assert public_id.decode(msgspec.json.decode(msgspec.json.encode({"id": shown}))["id"]) == job_id
    # Our own JSON holds them exactly as numbers too.
    claim = Claim(1, LARGEST, 1, (Lane("default", 5, 1, LARGEST),))
    assert msgspec.json.decode(msgspec.json.encode(claim), type=Claim) == claim
    (again,) = await postgres.insert_jobs([new_job(job_id + 1, key="k")])
    (met,) = await postgres.insert_jobs([new_job(job_id + 2, key="k")])
    assert (again.id, met.outcome, met.id) == (job_id + 1, Insertion.EXISTING, job_id + 1)


async def test_enqueue_v1_answers_large_ids(postgres: PostgresStore, dsn: str) -> None:
    await start_at(dsn, postgres.schema, 4095, 2**47)
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        inserted = await postgres.insert_on(connection, [new_job(0), new_job(0, unique="u"), new_job(0, unique="u")])
    await connection.close()
    first = (4095 << 48) + 2**47 + 64
    assert [one.id for one in inserted] == [first, first + 1, first + 1]


async def test_the_largest_and_the_smallest_id_can_be_stored(postgres: PostgresStore) -> None:
    await postgres.insert_jobs([new_job(LARGEST), new_job(0)])
    assert {job.id for job in await postgres.get_jobs([LARGEST, 0])} == {LARGEST, 0}
    worker = await register(postgres)
    ends = [completed(job.id, job.claim) for job in await postgres.claim_jobs(request(worker, 2))]
    await postgres.finish_jobs(ends)
    assert {job.state for job in await postgres.get_jobs([LARGEST, 0])} == {JobState.COMPLETED}
    for job_id in (LARGEST + 1, -1):
        with pytest.raises(StoreError):
            await postgres.insert_jobs([new_job(job_id)])


async def test_the_last_block_of_ids_is_used_and_then_refused(postgres: PostgresStore, dsn: str) -> None:
    await start_at(dsn, postgres.schema, 4095, 2**48 - 128)
    ids = await postgres.take_ids(64)
    assert ids[-1] == LARGEST
    with pytest.raises(StoreError):
        await postgres.take_ids(1)
