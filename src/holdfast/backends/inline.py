"""A queue backend without a server, for tests: what was enqueued runs in this process when the test says so."""

import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from holdfast.backends.backend import DEFAULT, QueueBackend
from holdfast.errors import ConfigError, UnknownKind

Function = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


class Worked(Protocol):
    """What the backend needs of an app to run its jobs."""

    @property
    def queue_backend(self) -> QueueBackend:
        """The app as a queue backend."""

    async def run_worker(self, *, until: str) -> None:
        """Run jobs in this event loop."""


@dataclass
class Request:
    """One call that was asked for."""

    id: str
    name: str
    payload: dict[str, Any]
    queue: str
    enqueued_at: datetime
    status: str = "queued"
    result: object = None
    error: BaseException | None = None


class InlineQueueBackend:
    """Keeps requests in memory; `await backend.run_pending()` runs them, first come first served.

    With `functions`, each is called as Arq calls it: `async def f(ctx, payload)`. With `app`, requests become stored
    jobs, and a worker in this event loop runs them until nothing is left that may run now.
    """

    def __init__(self, functions: Mapping[str, Function] | None = None, *, app: Worked | None = None) -> None:
        if (functions is None) == (app is None):
            message = "InlineQueueBackend(...): expected either functions by name or app=..., got"
            message += " neither" if app is None else " both"
            raise ConfigError(message)
        self._functions = dict(functions or {})
        self._app = app
        self._requests: dict[str, Request] = {}
        self._pending: deque[Request] = deque()

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = DEFAULT) -> str | None:
        """Keep a request until `run_pending`."""
        if self._app is not None:
            return await self._app.queue_backend.enqueue(job_type, payload, queue_name=queue_name)
        if job_type not in self._functions:
            known = ", ".join(sorted(self._functions)) or "none"
            message = f"no function is known by the name {job_type!r}; known are {known}"
            raise UnknownKind(message)
        request = Request(uuid.uuid4().hex, job_type, payload, queue_name, datetime.now(UTC))
        self._requests[request.id] = request
        self._pending.append(request)
        return request.id

    async def run_pending(self) -> None:
        """Run what waits, and what that enqueues meanwhile; an exception ends its request and no other."""
        if self._app is not None:
            await self._app.run_worker(until="empty")
            return
        while self._pending:
            await self._run(self._pending.popleft())

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Show a request."""
        if self._app is not None:
            return await self._app.queue_backend.get_job_metadata(backend_job_id)
        request = self._requests.get(backend_job_id)
        return None if request is None else dict(vars(request))

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """Give what a function returned."""
        if self._app is not None:
            return await self._app.queue_backend.get_job_result(backend_job_id)
        request = self._requests.get(backend_job_id)
        return None if request is None else request.result

    async def _run(self, request: Request) -> None:
        request.status = "in_progress"
        try:
            request.result = await self._functions[request.name]({"job_id": request.id}, request.payload)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything, and the next request runs all the same
            request.status, request.error = "failed", error
        else:
            request.status = "completed"
