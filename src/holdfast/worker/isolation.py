"""Whether a job that once brought a process down gets a process of its own here, or this one for itself alone."""

import logging
import sys
from pathlib import PurePath

from holdfast.job import JobRow
from holdfast.tasks.registry import AnyTask
from holdfast.worker.parts import Parts
from holdfast.worker.vanished import folder_of
from holdfast.worker.whereabouts import is_importable

_logger = logging.getLogger("holdfast")

# How the last run of a job ended whose process died under it.
_DEATHS = frozenset({"WorkerLost", "ProcessDied"})


class NoProcess(Exception):
    """A job that never asked for a process could not get one."""


class Isolation:
    """Decides for the jobs of one process; one inside a program of somebody else is embedded."""

    def __init__(self, parts: Parts, *, has_processes: bool, is_embedded: bool) -> None:
        self._tasks = parts.tasks
        self._has_processes = has_processes
        self._is_embedded = is_embedded
        # No other process can reach a store in memory: what the handler stores there would be lost.
        self.is_shared = folder_of(parts.settings) is not None
        self._importable: dict[str, bool] = {}
        self._failed: set[int] = set()  # jobs for which no process could be had

    def can_isolate(self, job: JobRow) -> bool:
        """Whether a job that brought a process down can run in one of its own."""
        if not self._has_processes:
            return False
        task = self._tasks.get(job.kind)
        if task.policy.executor == "process":
            return True
        if not self.is_shared or job.id in self._failed:
            return False
        if self._has_survived(job):  # guard: survived-run
            return False
        return self._is_importable(task)

    def must_be_alone(self, job: JobRow) -> bool:
        """Whether nothing may run beside a job in this process."""
        return job.crashes > 0 and job.kind in self._tasks and not self.can_isolate(job)

    def failed(self, job: JobRow, reason: str) -> None:
        """Remember that a job could not get a process: it runs here, alone."""
        self._failed.add(job.id)
        message = "job %s (%s) gets no process of its own: %s; it is requeued, and will run with nothing beside it"
        _logger.warning(message, job.public_id, job.kind, reason)

    def begun(self, job: JobRow) -> None:
        """Forget a job that runs alone."""
        self._failed.discard(job.id)

    def _has_survived(self, job: JobRow) -> bool:
        """Whether a job has run after its last crash and its process lived, but the handler raised.

        It may need what only the program around this worker has set up: the next attempt is made there.
        """
        return self._is_embedded and job.error_class not in _DEATHS

    def _is_importable(self, task: AnyTask) -> bool:
        if task.kind not in self._importable:
            self._importable[task.kind] = _is_interpreter() and is_importable(task)
        return self._importable[task.kind]


def _is_interpreter() -> bool:
    """Whether `sys.executable` is Python, and not a program that Python was built into: that would start once more."""
    return "py" in PurePath(sys.executable or "").name.lower() and not getattr(sys, "frozen", False)
