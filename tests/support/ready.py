"""Hints of jobs that no store has."""

from holdfast.stores.values import Ready


def ready(identifier: int, priority: int = 5, queue: str = "mail", due_ms: int | None = None) -> Ready:
    """Make the hint of a job; by default the smaller id is the older one."""
    return Ready(identifier, queue, priority, identifier if due_ms is None else due_ms)


def ids(jobs: list[Ready]) -> list[int]:
    return [job.id for job in jobs]
