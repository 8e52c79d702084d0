"""Jobs and workers as tests speak of them."""

import itertools
from typing import Any

from holdfast.failure import Failure
from holdfast.job import Answer, JobRow, JobState, NewJob
from holdfast.stores.store import Store
from holdfast.stores.values import Claim, Finish, Inserted, Insertion, Lane, QueueTerms, Verdict, WorkerProcess
from holdfast.transitions import Transition, completed, crashed, failed

LEASE_MS = 10_000
FAILURE = Failure("SomeError", "it went wrong", "a traceback", "SomeError:it went wrong")

_batches = itertools.count(1)


def keeping(
    completed_ms: int | None, completed_with_errors_ms: int | None, failed_ms: int | None, cancelled_ms: int | None
) -> QueueTerms:
    """Terms that say how long each outcome is kept, and nothing else."""
    return QueueTerms(
        kept_ms={
            JobState.COMPLETED: completed_ms,
            JobState.COMPLETED_WITH_ERRORS: completed_with_errors_ms,
            JobState.FAILED: failed_ms,
            JobState.CANCELLED: cancelled_ms,
        }
    )


def new_job(job_id: int, **changes: Any) -> NewJob:
    """A job to insert: plain, unless changed."""
    fields: dict[str, Any] = {
        "id": job_id,
        "kind": "work",
        "queue": "default",
        "priority": 5,
        "payload": "{}",
        "max_attempts": 5,
        "max_crashes": 3,
        "timeout_ms": 3_600_000,
    }
    return NewJob(**(fields | changes))


async def new_jobs(store: Store, count: int, **changes: Any) -> list[NewJob]:
    """Jobs to insert, under fresh ids."""
    return [new_job(job_id, **changes) for job_id in await store.take_ids(count)]


async def insert(store: Store, **changes: Any) -> Inserted:
    """Insert one job and give the answer."""
    (answer,) = await store.insert_jobs(await new_jobs(store, 1, **changes))
    return answer


async def enqueue(store: Store, **changes: Any) -> int:
    """Insert one job that must be created, and give its id."""
    answer = await insert(store, **changes)
    assert answer.outcome is Insertion.CREATED
    assert answer.id is not None
    return answer.id


async def enqueue_many(store: Store, count: int, **changes: Any) -> list[int]:
    """Insert jobs in one call and give their ids in order."""
    jobs = await new_jobs(store, count, **changes)
    answers = await store.insert_jobs(jobs)
    assert answers == [Inserted(Insertion.CREATED, job.id) for job in jobs]
    return [job.id for job in jobs]


async def register(
    store: Store, *, lease_ms: int = LEASE_MS, instance: str = "test", queues: tuple[str, ...] = ()
) -> int:
    """Enter a worker; without queues it works all of them."""
    return await store.register_worker(WorkerProcess(instance=instance, host="here", pid=1, queues=queues), lease_ms)


def lane(queue: str = "default", priority: int = 5, *, limit: int = 1_000, after: int = 0) -> Lane:
    """One line to claim from."""
    return Lane(queue, priority, limit, after)


def claim_of(worker: int, *lanes: Lane, limit: int = 1_000, batch: int | None = None) -> Claim:
    """A request for work, by default from the default lane, under a batch of its own."""
    return Claim(worker, next(_batches) if batch is None else batch, limit, lanes or (lane(),))


async def claim(store: Store, worker: int, *lanes: Lane, limit: int = 1_000) -> list[JobRow]:
    """Take jobs."""
    return await store.claim_jobs(claim_of(worker, *lanes, limit=limit))


async def claim_one(store: Store, worker: int | None = None) -> JobRow:
    """Take the only job that may run."""
    (job,) = await claim(store, await register(store) if worker is None else worker)
    return job


async def running(store: Store, worker: int | None = None, **changes: Any) -> JobRow:
    """Enqueue a job and take it."""
    job_id = await enqueue(store, **changes)
    job = await claim_one(store, worker)
    assert job.id == job_id
    return job


async def end(store: Store, transition: Transition) -> Finish:
    """End one claim."""
    worked = await store.finish_jobs([transition])
    return worked.finishes[0]


async def settle(store: Store, transition: Transition) -> JobRow | None:
    """End one claim, which must be ours, and read the job."""
    assert (await end(store, transition)).verdict is Verdict.DONE
    return await find(store, transition.id)


async def find(store: Store, job_id: int) -> JobRow | None:
    """Read a job that may be gone."""
    jobs = await store.get_jobs([job_id])
    return jobs[0] if jobs else None


async def read(store: Store, job_id: int) -> JobRow:
    """Read a job that must be there."""
    job = await find(store, job_id)
    assert job is not None
    return job


async def state_of(store: Store, job_id: int) -> JobState:
    """Read where a job stands."""
    return (await read(store, job_id)).state


async def finished(store: Store, state: JobState, **changes: Any) -> JobRow:
    """Bring a job to a terminal state, as a worker does (or, for `cancelled`, a caller)."""
    if state is JobState.CANCELLED:
        job_id = await enqueue(store, **changes)
        await cancel(store, job_id)
        return await read(store, job_id)
    job = await running(store, **changes)
    if state is JobState.FAILED:
        await settle(store, failed(job.id, job.claim, FAILURE))
    else:
        with_errors = state is JobState.COMPLETED_WITH_ERRORS
        await settle(store, completed(job.id, job.claim, "null", with_errors=with_errors))
    return await read(store, job.id)


async def cancel(store: Store, job_id: int) -> Answer:
    """Cancel one job."""
    (answered,) = await store.cancel_jobs([job_id], actor=None, reason=None)
    return answered.answer


async def retry(store: Store, job_id: int) -> Answer:
    """Give one finished job a new life."""
    (answered,) = await store.retry_jobs([job_id])
    return answered.answer


async def crash(store: Store, job: JobRow) -> JobRow:
    """Let the process die under a job, and read the job."""
    await settle(store, crashed(job.id, job.claim, FAILURE))
    return await read(store, job.id)
