"""What an enqueue gives back: a job that can be asked about, waited for, cancelled and retried."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast import payload, public_id
from holdfast.duration import Duration
from holdfast.errors import Conflict, InvalidValue, JobCancelled, JobFailed
from holdfast.job import JobRow, JobState
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from holdfast.resources.job_parts import JobAnswer, Why

R_co = TypeVar("R_co", covariant=True)


class HandleJobs(Protocol):
    """What a handle needs from the client that made it."""

    async def get(self, job: int | str) -> Job:
        """Read a job."""

    async def finished_row(self, job: int | str, timeout: Duration | None) -> JobRow:
        """Wait until a job has finished."""

    def watch(self, job: int | str) -> AsyncIterator[Event]:
        """Follow a job until it finishes."""

    async def cancel_many(
        self, jobs: Sequence[int | str], *, actor: str | None = None, reason: str | None = None
    ) -> list[JobAnswer]:
        """Cancel jobs."""

    async def retry_many(self, jobs: Sequence[int | str], *, from_phase: str | None = None) -> list[JobAnswer]:
        """Start finished jobs over."""

    async def why(self, job: int | str) -> Why:
        """Say why a job stands where it stands."""


class JobHandle(Generic[R_co]):
    """A job of which the result will be an `R_co`.

    `created` is False when `unique`, `unique_for` or `key` found a job that was there already. `number` is its id as
    the database has it; None only when that job belongs to a transaction which the caller's own REPEATABLE READ
    transaction cannot see.
    """

    __slots__ = ("_jobs", "_result_type", "created", "number")

    def __init__(self, jobs: HandleJobs, job_id: int | None, *, created: bool, result_type: Any = Any) -> None:
        self._jobs = jobs
        self._result_type = result_type
        self.number = job_id
        self.created = created

    def __repr__(self) -> str:
        shown = "unknown" if self.number is None else public_id.encode(self.number)
        return f"<JobHandle {shown} {'created' if self.created else 'existing'}>"

    @property
    def id(self) -> str:
        """The id as people see it."""
        return public_id.encode(self._known_id())

    async def get(self) -> Job:
        """Read the job as it is now."""
        return await self._jobs.get(self._known_id())

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end of the job and return what its handler returned.

        Raises JobFailed, JobCancelled, JobNotFound, or ResultTimeout; after a timeout the job goes on.
        """
        job = await self._jobs.finished_row(self._known_id(), timeout)
        _require_result(job)
        stored = "null" if job.result_json is None else job.result_json
        try:
            result: R_co = msgspec.json.decode(stored, type=self._result_type, dec_hook=payload.decode_model)
        except msgspec.ValidationError as error:
            message = f"job {job.public_id} ({job.kind}): its result does not fit the task's return type: {error};"
            message += " (await job.get()).result has it as plain JSON"
            raise InvalidValue(message) from error
        return result

    def watch(self) -> AsyncIterator[Event]:
        """Follow the job: everything that happens to it from here on, in whatever process, until it finishes.

            async for event in job.watch():
                print(event.type, event.data.get("percent"))

        Of a job that has finished already it gives that end, and nothing else.
        """
        return self._jobs.watch(self._known_id())

    async def cancel(self, *, actor: str | None = None, reason: str | None = None) -> JobState:
        """Cancel the job: a waiting one at once; a running one is asked to stop, and the answer is `running`."""
        (answer,) = await self._jobs.cancel_many([self._known_id()], actor=actor, reason=reason)
        return answer.state_after()

    async def retry(self, *, from_phase: str | None = None) -> JobState:
        """Start the job over after it failed, was cancelled or completed with errors.

        Completed phases keep their results; `from_phase` runs that one and all later ones again.
        """
        (answer,) = await self._jobs.retry_many([self._known_id()], from_phase=from_phase)
        return answer.state_after()

    async def why(self) -> Why:
        """Say why the job stands where it stands: what it waits for, and who keeps it waiting."""
        return await self._jobs.why(self._known_id())

    def _known_id(self) -> int:
        if self.number is None:
            message = "this enqueue met a job that your REPEATABLE READ transaction cannot see, so its id is unknown;"
            message += " enqueue again after the transaction, or use READ COMMITTED"
            raise Conflict(message)
        return self.number


def _require_result(job: JobRow) -> None:
    if job.state is JobState.FAILED:
        message = f"job {job.public_id} ({job.kind}) failed: {job.error_class}: {job.error}"
        raise JobFailed(message, job.error_class, job.error)
    if job.state is JobState.CANCELLED:
        message = f"job {job.public_id} ({job.kind}) was cancelled"
        raise JobCancelled(message)
