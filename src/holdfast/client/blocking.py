"""The same verbs for programs without an event loop: each is the async verb, run on a loop in a daemon thread.

Only the caller's own synchronous connection stays on the caller's thread, because it must not leave it.
"""

import asyncio
import functools
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from holdfast.client.blocking_namespaces import (
    BlockingAudit,
    BlockingBudgets,
    BlockingBulkOperations,
    BlockingDeadLetters,
    BlockingEscalations,
    BlockingJobs,
    BlockingKinds,
    BlockingLimits,
    BlockingLocks,
    BlockingQueues,
    BlockingSchedules,
    BlockingServices,
    BlockingSettings,
    BlockingTokens,
    BlockingWebhooks,
    BlockingWorkers,
)
from holdfast.client.client import LocalClient
from holdfast.client.lock_block import LockBlock
from holdfast.client.lock_keeper import LockKeeper
from holdfast.client.loop_thread import follow, run_on
from holdfast.duration import Duration
from holdfast.errors import ConfigError
from holdfast.handle import JobHandle
from holdfast.job import JobState
from holdfast.lock import Lock, Part, name_of
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from holdfast.resources.job_parts import Why
from holdfast.tasks.call import Call

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class BlockingHandle(Generic[R_co]):
    """A `JobHandle` whose verbs wait."""

    def __init__(self, handle: JobHandle[R_co], loop: asyncio.AbstractEventLoop) -> None:
        self._handle = handle
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._handle).replace("JobHandle", "BlockingHandle")

    @property
    def number(self) -> int | None:
        """The id as the database has it; see `JobHandle`."""
        return self._handle.number

    @property
    def id(self) -> str:
        """The id as people see it."""
        return self._handle.id

    @property
    def created(self) -> bool:
        """Whether this enqueue made the job."""
        return self._handle.created

    def get(self) -> Job:
        """Read the job as it is now."""
        return run_on(self._loop, self._handle.get)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end of the job and return what its handler returned."""
        return run_on(self._loop, functools.partial(self._handle.result, timeout))

    def cancel(self, *, actor: str | None = None, reason: str | None = None) -> JobState:
        """Cancel the job."""
        return run_on(self._loop, functools.partial(self._handle.cancel, actor=actor, reason=reason))

    def watch(self) -> Iterator[Event]:
        """Follow the job: everything that happens to it from here on, until it finishes."""
        return follow(self._loop, self._handle.watch())

    def retry(self, *, from_phase: str | None = None) -> JobState:
        """Start the job over."""
        return run_on(self._loop, lambda: self._handle.retry(from_phase=from_phase))

    def why(self) -> Why:
        """Say why the job stands where it stands."""
        return run_on(self._loop, self._handle.why)


class BlockingClient:
    """What `with app.blocking() as queue` gives: the client's verbs, each waiting for its answer."""

    def __init__(self, client: LocalClient, loop: asyncio.AbstractEventLoop) -> None:
        self.client = client
        self.loop = loop
        self.budgets = BlockingBudgets(client.budgets, loop)
        self.limits = BlockingLimits(client.limits, loop)
        self.locks = BlockingLocks(client.locks, loop)
        self.jobs = BlockingJobs(client.jobs, loop)
        self.queues = BlockingQueues(client.queues, loop)
        self.webhooks = BlockingWebhooks(client.webhooks, loop)
        self.kinds = BlockingKinds(client.kinds, loop)
        self.services = BlockingServices(client.services, loop)
        self.settings = BlockingSettings(client.settings, loop)
        self.tokens = BlockingTokens(client.tokens, loop)
        self.audit = BlockingAudit(client.audit, loop)
        self.workers = BlockingWorkers(client.workers, loop)
        self.escalations = BlockingEscalations(client.escalations, loop)
        self.bulk = BlockingBulkOperations(client.bulk, loop)
        self.schedules = BlockingSchedules(client.schedules, loop)
        self.dead_letters = BlockingDeadLetters(client.dead_letters, loop)

    def enqueue(self, call: Call[R]) -> BlockingHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction."""
        if self._stays_here(call.options.connection):
            return BlockingHandle(self.client.enqueuing.one_on(call), self.loop)
        return BlockingHandle(run_on(self.loop, lambda: self.client.enqueue(call)), self.loop)

    def enqueue_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[BlockingHandle[R]]:
        """Store many jobs in one round trip; the answers map one to one to the calls."""
        if self._stays_here(connection):
            handles = self.client.enqueuing.many_on(calls, connection)
        else:
            all_calls = list(calls)  # the caller's iterator runs on the caller's thread
            handles = run_on(self.loop, lambda: self.client.enqueue_many(all_calls))
        return [BlockingHandle(handle, self.loop) for handle in handles]

    def lock(self, *parts: Part, timeout: Duration | None = None) -> AbstractContextManager[Lock]:
        """Hold a lock while the block runs: `with queue.lock("edition", 42) as lock: ...`.

        A thread cannot be cancelled: a long body looks at `lock.is_lost`, and leaving the block raises LockLost.
        """

        async def keeper() -> LockKeeper:
            return self.client.locking

        return LockBlock(keeper, name_of(parts), timeout, wait_for=functools.partial(run_on, self.loop))

    def prune(self) -> int:
        """Delete now what has outlived its time; the answer is how much."""
        return run_on(self.loop, self.client.prune)

    def _stays_here(self, connection: Any) -> bool:
        if connection is None:
            return False
        if self.client.enqueuing.awaits(connection):
            message = "an asynchronous connection belongs to its own event loop; use `await task.using(connection=...)`"
            raise ConfigError(message)
        return True
