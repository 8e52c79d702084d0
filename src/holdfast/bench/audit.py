"""Whether every job ran exactly once: a figure that lost a job, or ran it twice, is worth nothing."""

from collections import Counter
from collections.abc import Collection, Iterable

_NAMED = 5


class RunFailed(Exception):
    """A run that says nothing about speed; `problems` says why."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems


def require_exactly_once(enqueued: int, runs: Iterable[int]) -> None:
    """Compare what ran with what was enqueued: the numbers from 0 on."""
    times = Counter(runs)
    wanted = range(enqueued)
    differences = {
        "never ran": [number for number in wanted if not times[number]],
        "ran more than once": [number for number in wanted if times[number] > 1],
        "ran and had never been enqueued": [number for number in times if number not in wanted],
    }
    problems = [
        f"{len(numbers):,} of {enqueued:,} jobs {what}: {_some(numbers)}"
        for what, numbers in differences.items()
        if numbers
    ]
    if problems:
        raise RunFailed(*problems)


def _some(numbers: Collection[int]) -> str:
    named = ", ".join(f"number {number}" for number in sorted(numbers)[:_NAMED])
    return f"{named}, …" if len(numbers) > _NAMED else named
