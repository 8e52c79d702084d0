"""An app with a worker beside the test, and waiting for what it does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast, JobHandle
from holdfast.job import Job, JobState
from holdfast.worker.embedded import Embedded
from holdfast.worker.leaving import Until
from holdfast.worker.worker import Worker
from holdfast.worker_settings import WorkerSettings
from tests.support.wait import PATIENCE_S, until

# A lease that holds however busy the machine is, renewed ten times a second when the test is `brisk`.
BRISK = WorkerSettings(
    embedded_lease="10s", transaction_budget="1s", kill_grace="200ms", shutdown_grace="10s", poll="100ms"
)

MakeApp = Callable[..., Holdfast]


async def until_state(handle: JobHandle[Any], *states: JobState) -> Job:
    """Wait until a job is in one of the states."""
    found: list[Job] = []

    async def reached() -> bool:
        found[:] = [await handle.get()]
        return found[0].state in states

    await until(reached, f"{handle!r} is {' or '.join(states)}")
    return found[0]


async def ended(handle: JobHandle[Any]) -> Job:
    """Wait until a job has ended, and read it."""
    return await until_state(
        handle, JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.FAILED, JobState.CANCELLED
    )


async def drained(app: Holdfast, **options: Any) -> None:
    """Work until nothing is left that may run now."""
    async with asyncio.timeout(PATIENCE_S):
        await app.run_worker(until="empty", **options)


async def ran(app: Holdfast, *handles: JobHandle[Any]) -> list[Job]:
    """Work until nothing is left that may run now, and read the jobs."""
    await drained(app)
    return [await handle.get() for handle in handles]


class Working:
    """A worker that runs beside the test, with its inside open to it."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded
        self.task = asyncio.create_task(embedded.run(), name="the worker under test")

    @property
    def worker(self) -> Worker:
        """The worker itself, once it has started."""
        assert self.embedded._worker is not None
        return self.embedded._worker

    @property
    def id(self) -> int:
        """The id under which it is entered."""
        return self.embedded._id

    @property
    def running(self) -> int:
        """How many handlers it has under way."""
        return len(self.worker.executor.runs)

    @property
    def buffered(self) -> list[int]:
        """The jobs that it has claimed and not begun."""
        return [run.job.id for run in self.worker._pump.buffer]

    def time_out(self) -> None:
        """Let the timeouts of all handlers that run pass now, so that no machine is too slow for them before."""
        executor = self.worker.executor
        for run in list(executor.runs.values()):
            executor._deadlines.set(run, 0)

    async def started(self) -> None:
        """Wait until it works."""

        def works() -> bool:
            if self.task.done():
                self.task.result()
            return self.embedded._worker is not None and bool(self.worker._loops)

        await until(works, "the worker has started")

    async def stopped(self) -> None:
        """Let it drain, and wait until it has left."""
        self.embedded.drain()
        async with asyncio.timeout(PATIENCE_S):
            await self.task


def embed(app: Holdfast, *, queues: Sequence[str] | None = None, concurrency: int | None = None) -> Embedded:
    """Make what `app.run_worker()` makes."""
    return Embedded(app.parts, app.store, app.client.delivery, queues=queues, concurrency=concurrency, until=Until.TOLD)


@asynccontextmanager
async def working(app: Holdfast, **options: Any) -> AsyncIterator[Working]:
    """Let a worker of an open app run beside the block; it has drained when the block is left."""
    work = Working(embed(app, **options))
    await work.started()
    try:
        yield work
    except BaseException:
        work.embedded.stop()
        await asyncio.wait([work.task], timeout=PATIENCE_S)
        raise
    await work.stopped()
