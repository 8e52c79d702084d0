"""What can be seen of running processes, and read in the handlers' ledger."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from holdfast.job import JobRow
from tests.support.oracle import Note

_PAGE = os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    """Count the file descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_bytes(pid: int) -> int:
    """How much memory a process has; nothing when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """All processes below one; what ends meanwhile is left out."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def running(notes: Sequence[Note], pids: Sequence[int] | None = None) -> dict[int, int]:
    """The jobs, and their claims, whose handlers have begun and not ended: in some processes, or in any."""
    began: dict[tuple[int, int], Note] = {}
    for note in notes:
        if note.what == "begin" and (pids is None or note.pid in pids):
            began[note.job, note.claim] = note
        elif note.what == "end":
            began.pop((note.job, note.claim), None)
    return dict(sorted(began))


def rescue_lags(jobs: Iterable[JobRow], notes: Sequence[Note], kills: Mapping[int, float]) -> list[float]:
    """How long after the kill of a process, in the time of day, each claim that it had begun was taken from it."""
    where = {(note.job, note.claim): note.pid for note in notes if note.what == "begin" and note.pid in kills}
    return [
        max(attempt.ended_at.timestamp() - kills[where[job.id, attempt.claim]], 0.0)
        for job in jobs
        for attempt in job.attempts
        if (job.id, attempt.claim) in where
    ]


def held_for(jobs: Iterable[JobRow]) -> list[float]:
    """How many seconds each claim lasted that did not end its job, by the store's clock."""
    ended = [attempt for job in jobs for attempt in job.attempts]
    return [(one.ended_at - one.claimed_at).total_seconds() for one in ended if one.claimed_at is not None]


def spread(lags: Sequence[float]) -> str:
    """Say how long things took."""
    return f"median {median(lags):.2f} s, longest {max(lags):.2f} s ({len(lags)})" if lags else "none"


def is_stopped(pid: int) -> bool:
    """Whether a process stands still by a signal."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
