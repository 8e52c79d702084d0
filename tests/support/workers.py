"""An app with a worker beside the test, and waiting for what it does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast, JobHandle
from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.worker.embedded import Embedded
from holdfast.worker.instance import Instance
from holdfast.worker.leaving import Until
from holdfast.worker.worker import Worker
from holdfast.worker_settings import WorkerSettings
from tests.support.moments import Moments, recorded
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
    """A worker that runs beside the test, known by the moments that it publishes."""

    def __init__(self, embedded: Embedded, moments: Moments) -> None:
        self.embedded = embedded
        self.moments = moments
        self.task = asyncio.create_task(embedded.run(), name="the worker under test")
        self._ids: list[int] = []
        self._running: set[tuple[int, int]] = set()
        self._buffered: list[int] = []
        self._seen = 0

    @property
    def worker(self) -> Worker:
        """The worker itself, for what no moment tells."""
        assert self.embedded._worker is not None
        return self.embedded._worker

    @property
    def id(self) -> int:
        """The id under which it is entered."""
        self._follow()
        return self._ids[-1]

    @property
    def running(self) -> int:
        """How many handlers it has under way."""
        self._follow()
        return len(self._running)

    @property
    def buffered(self) -> list[int]:
        """The jobs that it has claimed and not begun."""
        self._follow()
        return list(self._buffered)

    @property
    def refused(self) -> int:
        """How many ends of its jobs did not count, since others had them by then."""
        self._follow()
        return sum(self.moments.count("refused", worker=worker) for worker in self._ids)

    def _follow(self) -> None:
        """Follow what was published since the last look."""
        for name, facts in self.moments.all[self._seen :]:
            self._seen += 1
            if (name == "started" and not self._ids) or (name == "adopted" and facts["former"] in self._ids):
                self._ids.append(facts["worker"])
            if facts.get("worker") not in self._ids:
                continue
            match name:
                case "claimed":
                    self._buffered.extend(facts["jobs"])
                case "begun":
                    self._running.add((facts["job"], facts["claim"]))
                case "ended":
                    self._running.discard((facts["job"], facts["claim"]))
            if name in ("begun", "finished", "refused") and facts["job"] in self._buffered:
                self._buffered.remove(facts["job"])

    def time_out(self) -> None:
        """Let the timeouts of all handlers that run pass now, so that no machine is too slow for them before."""
        executor = self.worker.executor
        for run in list(executor.runs.values()):
            executor._deadlines.set(run, 0)

    async def started(self) -> None:
        """Wait until it works."""
        waiting = asyncio.ensure_future(self.moments.wait("started"))
        await asyncio.wait([waiting, self.task], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self.task.result()
        await waiting

    def drain(self) -> None:
        """Let it leave once what runs has ended."""
        self.embedded.drain()

    def stop(self) -> None:
        """Let it give back what runs, and leave."""
        self.embedded.stop()

    async def stopped(self) -> None:
        """Let it drain, and wait until it has left."""
        self.drain()
        async with asyncio.timeout(PATIENCE_S):
            await self.task


class Family:
    """Children of an instance that are no processes, and what they are dealt."""

    def __init__(self, instance: Instance, children: Sequence[Any]) -> None:
        self._instance = instance
        self._children = children
        instance._living.update(children)

    def bounds(self) -> list[dict[str, int]]:
        """What a child would begin with that takes the place of each."""
        return [self._instance._bounds_of(child) for child in self._children]

    async def tune(self) -> None:
        """Let the instance look at what is published."""
        await self._instance._tuner.look()


def embed(app: Holdfast, *, queues: Sequence[str] | None = None, concurrency: int | None = None) -> Embedded:
    """Make what `app.run_worker()` makes."""
    return Embedded(app.parts, app.store, app.client.delivery, queues=queues, concurrency=concurrency, until=Until.TOLD)


@asynccontextmanager
async def working(app: Holdfast, **options: Any) -> AsyncIterator[Working]:
    """Let a worker of an open app run beside the block; it has drained when the block is left."""
    with recorded() as moments:
        work = Working(embed(app, **options), moments)
        await work.started()
        if app.schedule_definitions.values():  # a clock that is moved before this would be when they begin
            await moments.wait("schedules_published")
        try:
            yield work
        except BaseException:
            work.stop()
            await asyncio.wait([work.task], timeout=PATIENCE_S)
            raise
        await work.stopped()
