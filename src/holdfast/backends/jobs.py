"""Holdfast itself as a queue backend: what is enqueued is a job like any other."""

from typing import Any, Protocol

import msgspec

from holdfast.backends.backend import DEFAULT
from holdfast.errors import ArgumentError, InvalidValue, JobNotFound
from holdfast.handle import JobHandle
from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact
from holdfast.tasks.call import Call
from holdfast.tasks.registry import Registry

_WITH_RESULT = (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS)


class BackendApp(Protocol):
    """What the backend needs of an app."""

    tasks: Registry

    @property
    def jobs(self) -> "BackendJobs":
        """The jobs of the app."""

    async def enqueue(self, call: Call[Any]) -> JobHandle[Any]:
        """Store one job."""


class BackendJobs(Protocol):
    """What the backend reads of jobs."""

    async def get(self, job: int | str) -> Job:
        """Read one job."""


class HoldfastQueueBackend:
    """The jobs of an app, named by their public ids; `app.queue_backend` makes it."""

    def __init__(self, app: BackendApp) -> None:
        self._app = app

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = DEFAULT) -> str:
        """Store a job of a kind with these arguments; another queue only where its task lets callers choose."""
        task = self._app.tasks.get(job_type)
        if not isinstance(payload, dict) or not all(isinstance(name, str) for name in payload):
            message = f"payload: expected a dict of the arguments of {task.name} by name, got {type(payload).__name__}"
            raise ArgumentError(message)
        call = task.call(**payload) if queue_name == DEFAULT else task.using(queue=queue_name).call(**payload)
        return (await self._app.enqueue(call)).id

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Show the fields of a job as plain values."""
        job = await self._find(backend_job_id)
        if job is None:
            return None
        shown: dict[str, Any] = msgspec.to_builtins(redact(job))
        return shown | {"status": str(job.state), "payload": shown["args"]}

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """Give the result of a job that has completed; before that, and for one that did not, None."""
        job = await self._find(backend_job_id)
        return None if job is None or job.state not in _WITH_RESULT else job.result

    async def _find(self, backend_job_id: str) -> Job | None:
        try:
            return await self._app.jobs.get(backend_job_id)
        except (JobNotFound, InvalidValue):  # what is no id at all is the id of no job
            return None
