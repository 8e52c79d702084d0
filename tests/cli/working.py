"""What workers will do, by hand: claim jobs and end them."""

import json
from datetime import UTC, datetime
from typing import Any

from holdfast import failure, transitions
from holdfast.job import JobRow
from holdfast.stores.values import Claim, Lane, ProgressReport, WorkerProcess

SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
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


async def claim(store: Any, queue: str, priority: int = 5, limit: int = 1, lease_ms: int = 60_000) -> list[JobRow]:
    """Take jobs as a new worker."""
    info = WorkerProcess(instance="i", host="web-1", pid=4711, queues=(queue,))
    worker = await store.register_worker(info, lease_ms)
    lanes = (Lane(queue, priority, limit),)
    found: list[JobRow] = await store.claim_jobs(Claim(worker=worker, batch=1, limit=limit, lanes=lanes))
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


async def talk(store: Any, queue: str) -> JobRow:
    """Let a job run and say everything that a handler can say: phases, items and log lines."""
    (job,) = await claim(store, queue)
    encode = {"ordinal": 0, "weight": 1, "data": None, "error": None, "result": None, "started_ago": 90_000}
    ended = encode | {
        "name": "download",
        "state": "completed",
        "percent": 100,
        "message": None,
        "result": {"path": "a"},
    }
    half = encode | {"name": "encode", "ordinal": 1, "state": "running", "percent": 50, "message": HOSTILE}
    changes = {
        "started": 90_000,
        "phases": [ended | {"ended_ago": 80_000}, half | {"ended_ago": None}],
        "sets": [{"name": "pages", "word": "slug", "phase": "encode", "keys": ["a", "b", "c", "d"]}],
        "items": [
            ["pages", "a", "completed", None],
            ["pages", "b", "skipped", "empty"],
            ["pages", "c", "failed", f"ValueError: {HOSTILE}"],
        ],
        "logs": [[1, 80_000, "INFO", "began"], [2, 10, "WARNING", f"slow {HOSTILE}"]],
    }
    report = ProgressReport(job.id, job.claim, 75, HOSTILE, None, "encode", 50, json.dumps(changes))
    await store.save_progress([report])
    return job
