"""What workers will do, by hand: claim jobs and end them."""

from typing import Any

from holdfast import failure, transitions
from holdfast.job import Job
from holdfast.stores.values import Claim, Lane, ProgressReport, WorkerInfo

HOSTILE = "\x1b]0;owned\x07\x1b[31m\u202e[red]x[/red]\x9b2J\r\n\t"


def broken() -> failure.Failure:
    """Describe an exception as a worker does."""

    def fail() -> None:
        message = f"no codec {HOSTILE}"
        raise ValueError(message)

    try:
        fail()
    except ValueError as error:
        return failure.from_exception(error)
    raise AssertionError


async def claim(store: Any, queue: str, priority: int = 5, limit: int = 1, lease_ms: int = 60_000) -> list[Job]:
    """Take jobs as a new worker."""
    info = WorkerInfo(instance="i", host="web-1", pid=4711, queues=(queue,))
    worker = await store.register_worker(info, lease_ms)
    lanes = (Lane(queue, priority, limit),)
    found: list[Job] = await store.claim_jobs(Claim(worker=worker, batch=1, limit=limit, lanes=lanes))
    return found


async def fail(store: Any, queue: str, priority: int = 5) -> None:
    """Let a job of a queue fail for good."""
    (job,) = await claim(store, queue, priority)
    await store.finish_jobs([transitions.failed(job.id, job.claim, broken(), started_ago_ms=20)])


async def retry_later(store: Any, queue: str) -> None:
    """Let an attempt fail and the next one wait."""
    (job,) = await claim(store, queue)
    await store.finish_jobs([transitions.retried(job.id, job.claim, broken(), 60_000)])


async def complete(store: Any, queue: str) -> None:
    """Let a job end well."""
    (job,) = await claim(store, queue)
    await store.finish_jobs([transitions.completed(job.id, job.claim, '{"rows":3}', started_ago_ms=20)])


async def report(store: Any, queue: str) -> None:
    """Let a job run and say how far it is."""
    (job,) = await claim(store, queue)
    await store.save_progress([ProgressReport(job.id, job.claim, 50, "half way", '{"done":3}')])
