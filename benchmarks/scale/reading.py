"""What people and dashboards read, timed: one job, pages of lists, counts."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from benchmarks.scale.place import Place
from holdfast import Holdfast, HoldfastError, Job, JobFilter, JobState

NO_ANSWER_MS = 10_000.0  # the deadline of every call
_LONGEST_S = 20.0
_PAGE = 100

Read = Callable[[], Awaitable[object]]


async def time_reads(place: Place, calls: int) -> dict[str, list[float]]:
    """Make each call so often, or for as long as patience lasts; give the milliseconds."""
    async with place.app(deadline="10s") as app:
        newest = await app.jobs.list(limit=_PAGE)
        return {name: await _timed(read, calls) for name, read in _reads(app, newest.jobs).items()}


async def _timed(read: Read, calls: int) -> list[float]:
    took: list[float] = []
    until = time.perf_counter() + _LONGEST_S
    while len(took) < calls and time.perf_counter() < until:
        began = time.perf_counter()
        try:
            await read()
        except HoldfastError:
            took.append(NO_ANSWER_MS)
        else:
            took.append((time.perf_counter() - began) * 1_000)
    return took


def _reads(app: Holdfast, newest: Sequence[Job]) -> dict[str, Read]:
    last = newest[-1]
    middle = last.enqueued_at - timedelta(days=3)
    failed, completed = (JobState.FAILED,), (JobState.COMPLETED,)

    def page(after: str | None = None, **conditions: object) -> Read:
        which = JobFilter(**conditions)  # type: ignore[arg-type] # chosen by name, each of its own type
        return lambda: app.jobs.list(which, limit=_PAGE, after=after)

    return {
        "one job": lambda: app.jobs.get(last.id),
        f"{_PAGE} jobs by id": lambda: app.jobs.get_many([job.id for job in newest]),
        "counts": app.jobs.counts,
        "list, newest": page(),
        "list, next page": page(after=f"{last.enqueued_at.isoformat()}/{last.id}"),
        "list, three days back": page(after=f"{middle.isoformat()}/{last.id}"),
        "list, an hour three days back": page(enqueued_from=middle - timedelta(hours=1), enqueued_before=middle),
        "list, completed": page(states=completed),
        "list, failed": page(states=failed),
        "list, one queue": page(queues=("default",)),
        "list, one kind of 20": page(kinds=("work_7",)),
        "list, failed of one fingerprint": page(states=failed, fingerprint="ValueError:10"),
        "list, one tag": page(tags=(("tenant", "t5"),)),
        "list, cancelled (none)": page(states=(JobState.CANCELLED,)),
        "list, a kind that has no jobs": page(kinds=("nothing",)),
        "list, an actor without jobs": page(actor="nobody"),
    }
