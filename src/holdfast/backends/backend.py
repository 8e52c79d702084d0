"""The protocol that every queue backend speaks; unknown ids give None."""

from typing import Protocol, runtime_checkable

DEFAULT = "default"
"""As the name of a queue: whichever queue is the backend's own default."""


@runtime_checkable
class QueueBackend(Protocol):
    """Protocol for queue backend implementations."""

    async def enqueue(
        self,
        job_type: str,
        payload: dict,  # type: ignore[type-arg] # the protocol is a given one, and says no more than this
        *,
        queue_name: str = "default",
    ) -> str | None:
        """Enqueue a job for background processing.

        Returns the backend-assigned job ID (str), or None if the backend does not assign IDs synchronously.
        """

    async def get_job_metadata(self, backend_job_id: str) -> dict | None:  # type: ignore[type-arg] # likewise
        """Retrieve metadata about a job from the backend.

        Returns backend-specific metadata (e.g., status, result), or None if the job is not found. Used for diagnostics
        only: what is true about a job is in the store.
        """

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """Retrieve the result of a completed job.

        Returns the job result, or None if not available.
        """
