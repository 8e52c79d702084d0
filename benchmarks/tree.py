"""What a process and everything below it have used: CPU seconds and memory."""

import contextlib
from collections.abc import Iterable, Iterator

import psutil  # type: ignore[import-untyped] # it carries no types

MEGABYTE = 1_000_000


def cpu_s(roots: Iterable[int]) -> float:
    """Sum up the CPU seconds of process trees, with those of children that ended and were waited for."""
    total = 0.0
    for process in _members(roots):
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def resident_mb(processes: Iterable[int]) -> float:
    """Tell the resident memory of the largest of some processes."""
    largest = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            largest = max(largest, psutil.Process(process).memory_info().rss)
    return largest / MEGABYTE


def _members(roots: Iterable[int]) -> Iterator[psutil.Process]:
    for root in roots:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(root)
            yield process
            yield from process.children(recursive=True)
