"""What keeps a store going."""

from datetime import UTC, datetime, timedelta

from holdfast.services.retention import RetentionService
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import WorkerProcess
from holdfast.transitions import completed
from tests.support.connections import new_job, request


async def test_what_has_expired_is_deleted_round_by_round_until_nothing_is_left(sqlite_memory: SqliteStore) -> None:
    await sqlite_memory.insert_jobs([new_job(job_id) for job_id in await sqlite_memory.take_ids(50)])
    worker = await sqlite_memory.register_worker(WorkerProcess("test", "localhost", 1), 60_000)
    jobs = await sqlite_memory.claim_jobs(request(worker, 50))
    await sqlite_memory.finish_jobs([completed(job.id, job.claim) for job in jobs])
    await sqlite_memory.set_time(datetime.now(UTC) + timedelta(days=8))
    retaining = RetentionService(sqlite_memory)

    left, more = [], []
    for _ in range(4):
        more.append((await retaining.run(20)).has_more)
        (rows,) = await sqlite_memory.connection.read(
            lambda database, _: database.execute("SELECT count(*) FROM holdfast_history").fetchone()
        )
        left.append(rows)
    assert left == [30, 10, 0, 0]
    assert more == [True, True, False, False], "a round a minute would leave more than it deletes"
