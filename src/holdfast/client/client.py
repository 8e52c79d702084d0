"""The client of one opened store."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.client.enqueue import Enqueuing
from holdfast.client.jobs import JobId
from holdfast.client.local_jobs import LocalJobs
from holdfast.client.lock_block import LockBlock
from holdfast.client.lock_keeper import LockKeeper
from holdfast.client.subscription import EventsMissed, Subscription, read_filter
from holdfast.client.transactional import CallerStore
from holdfast.client.watching import Watching
from holdfast.config import Settings
from holdfast.delivery.choosing import make_delivery
from holdfast.delivery.delivery import Delivery
from holdfast.duration import Duration
from holdfast.handle import JobHandle
from holdfast.lock import Lock, Part, name_of
from holdfast.resources.event import Event
from holdfast.stores.retention import prune
from holdfast.stores.store import Store
from holdfast.tasks.call import Call
from holdfast.tasks.registry import Registry

if TYPE_CHECKING:
    from holdfast.client.audit import Audit
    from holdfast.client.budgets import Budgets
    from holdfast.client.bulk import BulkOperations
    from holdfast.client.dead_letters import DeadLetters
    from holdfast.client.escalations import Escalations
    from holdfast.client.kinds import Kinds
    from holdfast.client.limits import Limits
    from holdfast.client.locks import Locks
    from holdfast.client.policies import Policies
    from holdfast.client.queues import Queues
    from holdfast.client.schedules import Schedules
    from holdfast.client.services import Services
    from holdfast.client.settings import Describe, RuntimeSettings
    from holdfast.client.tokens import Tokens
    from holdfast.client.webhooks import Webhooks
    from holdfast.client.workers import Workers

R = TypeVar("R")

_logger = logging.getLogger("holdfast")

_PRUNED = 500  # in one commit


class ClientStore(Store, CallerStore, Protocol):
    """A store as an app has it: all verbs, also on connections that are not its own."""


class LocalClient:
    """The client on one store, within one event loop; `describe` lists the settings of the app that it is of."""

    def __init__(
        self,
        store: ClientStore,
        settings: Settings,
        describe: "Describe",
        delivery: Delivery | None = None,
        tasks: Registry | None = None,
    ) -> None:
        self.store = store
        self.delivery = make_delivery(settings, store) if delivery is None else delivery
        self.watching = Watching(store)
        known = Registry() if tasks is None else tasks
        self.jobs = LocalJobs(store, settings, self.delivery, self.watching, known)
        self.deadline_s = settings.deadline_s
        self.enqueuing = Enqueuing(store, settings, self.jobs, self.delivery)
        self.locking = LockKeeper(store, self.delivery, patience_s=settings.deadline_s)
        self._config = settings
        self._describe = describe

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction.

        A cancelled enqueue is an unknown one: the job may exist. Enqueue with a key to repeat it safely.
        """
        return await self.enqueuing.one(call)

    async def enqueue_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[JobHandle[R]]:
        """Store many jobs in one round trip; the answers map one to one to the calls."""
        return await self.enqueuing.many(calls, connection)

    async def now(self) -> datetime:
        """Read what time the database has."""
        return (await self.store.diagnose()).now

    async def prune(self) -> int:
        """Delete now all that the retention service would delete within the next minute; the answer is how much.

        On PostgreSQL finished jobs go by whole weeks, and one whole week counts as one.
        """
        total = 0
        while True:
            pruned = await prune(self.store, _PRUNED)
            total += pruned.rows + pruned.partitions
            if not pruned.has_more:
                return total

    def lock(self, *parts: Part, timeout: Duration | None = None) -> AbstractAsyncContextManager[Lock]:
        """Hold a lock that everybody who uses this store respects, while the block runs.

            async with app.lock("edition", 42) as lock:
                await cdn.put(page, token=lock.token)

        The wait has no limit unless `timeout` is given; LockTimeout when it passes. Who comes first is served first. A
        lock ends with its block, and within half a minute with its process; a body that outlives its lock is cancelled
        and raises LockLost. It cannot be taken twice by the same task: that raises LockCycle.
        """
        return LockBlock(self._keeper, name_of(parts), timeout)

    async def _keeper(self) -> LockKeeper:
        return self.locking

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[JobId] = (),
    ) -> AbstractAsyncContextManager[Subscription]:
        """Hear of all that happens to jobs and queues, in whatever process, from the moment the block is entered.

            async with app.events(queues=["bulk"]) as events:
                async for event in events: ...

        One who reads too slowly gets EventsMissed instead of what was lost, and may go on.
        """
        return self.watching.subscribe(read_filter(types, kinds, queues, jobs))

    @asynccontextmanager
    async def subscribe(
        self,
        callback: Callable[[Event], Any],
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[JobId] = (),
    ) -> AsyncIterator[None]:
        """Call a function, or a coroutine function, with each event while the block runs; what it raises is logged."""
        async with self.events(types=types, kinds=kinds, queues=queues, jobs=jobs) as events:
            calling = asyncio.create_task(_call_each(events, callback), name="holdfast subscription")
            try:
                yield
            finally:
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)

    async def close(self) -> None:
        """Let accepted jobs and their hints go out and end every wait; the store stays open."""
        await self.locking.close()
        await self.enqueuing.close()
        await self.delivery.close()
        await self.jobs.close()
        await self.watching.close()

    # ---- namespaces, imported when the app first asks for one: a worker needs none of them ------------------------

    @cached_property
    def audit(self) -> "Audit":
        """The audit: who did what through the server or the command line."""
        from holdfast.client.audit import LocalAudit

        return LocalAudit(self.store, self.deadline_s)

    @cached_property
    def budgets(self) -> "Budgets":
        """The budgets: how much of each is spent and by whom, and their settings."""
        from holdfast.client.budgets import LocalBudgets

        return LocalBudgets(self.store, self.deadline_s, self.policies)

    @cached_property
    def bulk(self) -> "BulkOperations":
        """Bulk operations: one change to many jobs."""
        from holdfast.client.bulk import LocalBulkOperations

        return LocalBulkOperations(self.store, self.deadline_s)

    @cached_property
    def dead_letters(self) -> "DeadLetters":
        """The dead letters: the jobs that have failed, and their groups."""
        from holdfast.client.dead_letters import LocalDeadLetters

        return LocalDeadLetters(self.store, self.deadline_s, self.bulk, self.jobs)

    @cached_property
    def escalations(self) -> "Escalations":
        """The escalations, and tests of their policies."""
        from holdfast.client.escalations import LocalEscalations

        return LocalEscalations(self.store, self._config)

    @cached_property
    def kinds(self) -> "Kinds":
        """The kinds of jobs."""
        from holdfast.client.kinds import LocalKinds

        return LocalKinds(self.store, self.deadline_s)

    @cached_property
    def limits(self) -> "Limits":
        """The limits in force: how much of each is in use, and their settings."""
        from holdfast.client.limits import LocalLimits

        return LocalLimits(self.store, self.deadline_s, self.policies)

    @cached_property
    def locks(self) -> "Locks":
        """The locks that are held."""
        from holdfast.client.locks import LocalLocks

        return LocalLocks(self.store, self.deadline_s, self.delivery)

    @cached_property
    def queues(self) -> "Queues":
        """The queues and their settings."""
        from holdfast.client.queues import LocalQueues

        return LocalQueues(self.store, self.deadline_s, self.delivery, self.policies)

    @cached_property
    def schedules(self) -> "Schedules":
        """The schedules, and maintenance of them."""
        from holdfast.client.schedules import LocalSchedules

        return LocalSchedules(self.store, self._config, self.delivery)

    @cached_property
    def services(self) -> "Services":
        """The services: what they did, and how they run."""
        from holdfast.client.services import LocalServices

        return LocalServices(self.store, self._config)

    @cached_property
    def settings(self) -> "RuntimeSettings":
        """The settings in force."""
        from holdfast.client.settings import LocalSettings

        return LocalSettings(self.policies, self._describe)

    @cached_property
    def tokens(self) -> "Tokens":
        """The tokens of the server."""
        from holdfast.client.tokens import LocalTokens

        return LocalTokens(self.store, self.deadline_s)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """The endpoints of webhooks."""
        from holdfast.client.webhooks import LocalWebhooks

        return LocalWebhooks(self.store, self.deadline_s, self._config.webhooks.allowed)

    @cached_property
    def workers(self) -> "Workers":
        """The workers."""
        from holdfast.client.workers import LocalWorkers

        return LocalWorkers(self.store, self.deadline_s)

    @cached_property
    def policies(self) -> "Policies":
        """What namespaces of limits, budgets, queues and settings change."""
        from holdfast.client.policies import Policies

        return Policies(self.store, self.deadline_s, self.services)


async def _call_each(events: Subscription, callback: Callable[[Event], Any]) -> None:
    while True:
        try:
            event = await anext(events, None)
            if event is None:
                return
            answer = callback(event)
            if inspect.isawaitable(answer):
                await answer
        except EventsMissed:
            _logger.warning("a subscription has missed events: its callback is slower than what happens")
        except Exception:
            _logger.exception("a callback of a subscription failed; it is called for the next event all the same")
