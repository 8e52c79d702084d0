"""Which queues workers are told of after an insert."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.job import NewJob
from holdfast.stores.values import Inserted, Insertion

# Workers look by themselves once a second: what is due later is found in time without a hint.
SOON = timedelta(seconds=1)
_SOON_MS = SOON // timedelta(milliseconds=1)


def queues_to_announce(jobs: Iterable[NewJob], answers: Iterable[Inserted]) -> set[str]:
    """Name the queues of new jobs that are due now or soon."""
    queues: set[str] = set()
    for job, answer in zip(jobs, answers, strict=True):
        if job.queue not in queues and answer.outcome is Insertion.CREATED and _is_soon(job):
            queues.add(job.queue)
    return queues


def _is_soon(job: NewJob) -> bool:
    if job.run_at is not None:
        return job.run_at <= datetime.now(UTC) + SOON  # by our own clock: a hint decides nothing
    return job.delay_ms is None or job.delay_ms <= _SOON_MS
