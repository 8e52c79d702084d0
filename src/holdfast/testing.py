"""For tests of programs that use Holdfast: an app in memory, a clock that stands still, and what was enqueued.

async with in_memory(app) as jobs:
    await sign_up("a@example.org")
    await jobs.assert_enqueued(send_email, to="a@example.org")
    await jobs.clock.advance("1h")
"""

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

import msgspec

from holdfast import names, payload
from holdfast.app import Holdfast
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigError
from holdfast.locations import SqliteLocation
from holdfast.resources.job import Job
from holdfast.stores import make_store
from holdfast.stores.values import JobFilter
from holdfast.tasks.options import due_time
from holdfast.tasks.pipeline import Pipeline
from holdfast.tasks.task import Task
from holdfast.worker.leaving import Until

TaskOrKind = Task[..., Any] | type[Pipeline] | str

_MOST_SHOWN = 20


@runtime_checkable
class ClockedStore(Protocol):
    """A store whose clock a test may stop."""

    async def set_time(self, at: datetime | None) -> None:
        """Let the store's clock stand at a time; None lets it run again."""


class Clock:
    """The store's clock, in the hands of a test."""

    def __init__(self, store: ClockedStore) -> None:
        self._store = store
        self._now: datetime | None = None

    @property
    def now(self) -> datetime:
        """What the store's clock shows, or the present while it runs."""
        return datetime.now(UTC) if self._now is None else self._now

    async def freeze(self, at: datetime | None = None) -> datetime:
        """Let the clock stand, at the given time or the present."""
        self._now = self.now if at is None else due_time(at)
        await self._store.set_time(self._now)
        return self._now

    async def advance(self, by: Duration) -> datetime:
        """Let the clock stand a while later than it showed."""
        return await self.freeze(self.now + timedelta(milliseconds=milliseconds(by, "by")))

    async def run(self) -> None:
        """Let the clock run again."""
        self._now = None
        await self._store.set_time(None)


class Jobs:
    """What a test may ask about the jobs of an app."""

    def __init__(self, app: Holdfast, clock: Clock) -> None:
        self.app = app
        self.clock = clock

    async def enqueued(self, task: TaskOrKind, /, **arguments: Any) -> list[Job]:
        """List the jobs of a task that have at least these arguments, oldest first."""
        expected = _plain(arguments)
        found = [job async for job in self.app.jobs.iterate(JobFilter(kinds=(_kind(task),)))]
        return [job for job in reversed(found) if {**job.args, **expected} == job.args]

    async def assert_enqueued(self, task: TaskOrKind, /, **arguments: Any) -> list[Job]:
        """Fail unless such a job was enqueued, and say what was enqueued instead."""
        found = await self.enqueued(task, **arguments)
        if not found:
            message = f"no {_shown(_kind(task), arguments)} was enqueued; {await self._instead()}"
            raise AssertionError(message)
        return found

    async def assert_not_enqueued(self, task: TaskOrKind, /, **arguments: Any) -> None:
        """Fail if such a job was enqueued."""
        if found := await self.enqueued(task, **arguments):
            message = f"{len(found)} x {_shown(_kind(task), arguments)} enqueued: {_listed(found)}"
            raise AssertionError(message)

    async def drain(self, *, queues: Iterable[str] | None = None) -> list[Job]:
        """Run every job that is due, here and now, until none is left; return those that ended, oldest first.

        Jobs that are due later (retries too) wait for the clock: `await jobs.clock.advance("1m")`, then drain again.
        """
        before = {job.id: job async for job in self.app.jobs.iterate()}
        await self.app.run_worker(queues=queues, until=Until.EMPTY)
        ended = [job async for job in self.app.jobs.iterate() if job.is_finished and _is_new(job, before.get(job.id))]
        return ended[::-1]

    async def _instead(self) -> str:
        page = await self.app.jobs.list(limit=_MOST_SHOWN)
        return f"enqueued were (newest first): {_listed(page.jobs)}" if page.jobs else "nothing was enqueued at all"


@asynccontextmanager
async def in_memory(app: Holdfast) -> AsyncIterator[Jobs]:
    """Let the app work on a fresh store in memory; code under test may say `async with app` as usual."""
    settings = dataclasses.replace(app.config, url="sqlite://", location=SqliteLocation(None))
    async with app.open_on(make_store(settings)):
        yield Jobs(app, _clock_of(app))


@asynccontextmanager
async def controlled(app: Holdfast) -> AsyncIterator[Jobs]:
    """Let the app work on its own store, with its clock in the hands of the test."""
    async with app:
        jobs = Jobs(app, _clock_of(app))
        try:
            yield jobs
        finally:
            await jobs.clock.run()


def _clock_of(app: Holdfast) -> Clock:
    store = app.store
    if not isinstance(store, ClockedStore):
        message = f"{type(store).__name__} has no clock that a test could stop"
        raise ConfigError(message)
    return Clock(store)


def _is_new(job: Job, before: Job | None) -> bool:
    """Whether a job ended since: another run of the same job is another end."""
    return before is None or not before.is_finished or before.run != job.run


def _kind(task: TaskOrKind) -> str:
    if isinstance(task, str):
        return names.name(task, "kind")
    return task.registered().kind if isinstance(task, type) else task.kind


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(arguments, str_keys=True, enc_hook=payload.encode_model)
    return plain


def _shown(kind: str, arguments: dict[str, Any]) -> str:
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def _listed(jobs: list[Job]) -> str:
    shown = ", ".join(_shown(job.kind, payload.covered(job.args)) for job in jobs[:_MOST_SHOWN])
    return shown if len(jobs) <= _MOST_SHOWN else f"{shown}, ..."
