"""Whether every job ran exactly once: a benchmark that loses jobs is fast for nothing."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.contestants import ledger

_NAMED = 5


def problems_of(path: str | Path, expected: Iterable[int]) -> list[str]:
    """Compare a ledger with the jobs that were enqueued; one sentence for each kind of difference."""
    runs = Counter(record.number for record in ledger.read(path))
    wanted = set(expected)
    found = {
        "never ran": wanted - runs.keys(),
        "ran more than once": {number for number in wanted if runs[number] > 1},
        "ran and were never enqueued": runs.keys() - wanted,
    }
    return [f"{len(numbers)} jobs {what}: {_some(numbers)}" for what, numbers in found.items() if numbers]


def _some(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return ", ".join(map(str, ordered[:_NAMED])) + (", ..." if len(ordered) > _NAMED else "")
