"""What workers are told of after an insert."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.delivery.delivery import Delivery, Ready
from holdfast.job import NewJob
from holdfast.stores.values import Inserted, Insertion

# Workers look by themselves once a second: what is due later is found in time without a hint.
SOON = timedelta(seconds=1)
_SOON_MS = SOON // timedelta(milliseconds=1)


def announce_inserted(delivery: Delivery, jobs: Iterable[NewJob], answers: Iterable[Inserted]) -> None:
    """Announce new jobs that may run now, and hint at those that are due in a moment."""
    now = datetime.now(UTC)  # our own clock: a hint decides nothing
    due_ms = round(time.time() * 1_000)
    ready: list[Ready] = []
    soon: set[str] = set()
    for job, answer in zip(jobs, answers, strict=True):
        if answer.outcome is not Insertion.CREATED:
            continue
        if (job.run_at is None and not job.delay_ms) or (job.run_at is not None and job.run_at <= now):
            ready.append(Ready(job.id, job.queue, job.priority, due_ms))
        elif _is_soon(job, now):
            soon.add(job.queue)
    if ready:
        delivery.announce(ready)
    if soon:
        delivery.hint(soon)


def _is_soon(job: NewJob, now: datetime) -> bool:
    if job.run_at is not None:
        return job.run_at <= now + SOON
    return job.delay_ms is not None and job.delay_ms <= _SOON_MS
