"""The sweeps that keep a store going."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.services import upkeep
from holdfast.services.upkeep import Upkeep
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import WorkerInfo
from holdfast.transitions import completed
from holdfast.worker.vanished import HostMarks
from tests.races.making import new_job, request


async def test_what_has_expired_is_deleted_sweep_by_sweep_until_nothing_is_left(
    sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_BATCH", 10)
    monkeypatch.setattr(upkeep, "_BATCHES", 2)
    await sqlite_memory.insert_jobs([new_job(job_id) for job_id in await sqlite_memory.take_ids(50)])
    worker = await sqlite_memory.register_worker(WorkerInfo("test", "localhost", 1), 60_000)
    jobs = await sqlite_memory.claim_jobs(request(worker, 50))
    await sqlite_memory.finish_jobs([completed(job.id, job.claim) for job in jobs])
    await sqlite_memory.set_time(datetime.now(UTC) + timedelta(days=8))
    sweeps = Upkeep(sqlite_memory, HostMarks(None, "own"), cancel_grace_s=30, may_judge=lambda: True)
    sweeps._retain_at = 0.0

    left = []
    for _ in range(4):
        await sweeps.sweep()
        (rows,) = await sqlite_memory.connection.read(
            lambda database, _: database.execute("SELECT count(*) FROM holdfast_history").fetchone()
        )
        left.append(rows)
    assert left == [30, 10, 0, 0], "a sweep a minute would leave more than it deletes"
