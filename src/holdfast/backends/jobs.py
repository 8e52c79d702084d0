"""Holdfast itself as a queue backend: what is enqueued is a job like any other."""

from typing import Any, Protocol

import msgspec

from holdfast import public_id
from holdfast.backends.backend import DEFAULT
from holdfast.errors import ArgumentError, InvalidValue
from holdfast.handle import JobHandle
from holdfast.job import Job, JobState
from holdfast.tasks.call import Call
from holdfast.tasks.registry import Registry

_WITH_RESULT = (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS)


class Jobs(Protocol):
    """What the backend needs of an app."""

    tasks: Registry

    async def enqueue(self, call: Call[Any]) -> JobHandle[Any]:
        """Store one job."""

    async def get_many(self, jobs: list[int | str]) -> dict[int, Job]:
        """Read several jobs, by id; those that do not exist are left out."""


class HoldfastQueueBackend:
    """The jobs of an app, named by their public ids; `app.queue_backend` makes it."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = DEFAULT) -> str:
        """Store a job of a kind with these arguments; another queue only where its task lets callers choose."""
        task = self._jobs.tasks.get(job_type)
        if not isinstance(payload, dict) or not all(isinstance(name, str) for name in payload):
            message = f"payload: expected a dict of the arguments of {task.name} by name, got {type(payload).__name__}"
            raise ArgumentError(message)
        call = task.call(**payload) if queue_name == DEFAULT else task.using(queue=queue_name).call(**payload)
        return (await self._jobs.enqueue(call)).public_id

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Show the fields of a job as plain values."""
        job = await self._find(backend_job_id)
        if job is None:
            return None
        fields = msgspec.structs.asdict(job)
        plain = {name: value for name, value in fields.items() if not name.endswith("_json")}
        shown = {"status": str(job.state), "payload": job.payload, "result": job.result, "tags": job.tags}
        built: dict[str, Any] = msgspec.to_builtins(plain | shown | {"id": job.public_id})
        return built

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """Give the result of a job that has completed; before that, and for one that did not, None."""
        job = await self._find(backend_job_id)
        return None if job is None or job.state not in _WITH_RESULT else job.result

    async def _find(self, backend_job_id: str) -> Job | None:
        try:
            job_id = public_id.decode(backend_job_id)
        except (AttributeError, InvalidValue):  # what is no id at all is the id of no job
            return None
        return (await self._jobs.get_many([job_id])).get(job_id)
