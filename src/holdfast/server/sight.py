"""What one person can see: everything of the client, narrowed to the queues they may know of."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Self

from holdfast.client.client import LocalClient
from holdfast.client.jobs import JobId
from holdfast.client.settings import Describe, LocalSettings
from holdfast.resources.event import Event
from holdfast.resources.redaction import redact
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.problems import not_found
from holdfast.server.scoped.audit import ScopedAudit
from holdfast.server.scoped.budgets import ScopedBudgets
from holdfast.server.scoped.bulk import ScopedBulkOperations
from holdfast.server.scoped.dead_letters import ScopedDeadLetters
from holdfast.server.scoped.escalations import ScopedEscalations
from holdfast.server.scoped.jobs import ScopedJobs
from holdfast.server.scoped.kinds import ScopedKinds
from holdfast.server.scoped.limits import ScopedLimits
from holdfast.server.scoped.locks import ScopedLocks
from holdfast.server.scoped.queues import ScopedQueues
from holdfast.server.scoped.schedules import ScopedSchedules
from holdfast.server.scoped.settings import ScopedSettings
from holdfast.server.scoped.tokens import ScopedTokens
from holdfast.server.scoped.workers import ScopedWorkers
from holdfast.stores.store import Store


class Sight:
    """The client, as far as one person may look."""

    def __init__(self, client: LocalClient, describe: Describe, principal: Principal, kinds: KindRegistry) -> None:
        self.client = client
        self.store: Store = client.store
        self.principal = principal
        self.budgets = ScopedBudgets(self.client.budgets, principal)
        self.limits = ScopedLimits(self.client, principal)
        self.locks = ScopedLocks(self.client, principal)
        self.jobs = ScopedJobs(self.client.jobs, principal, kinds.check_on(self.store))
        self.queues = ScopedQueues(self.client.queues, principal)
        self.escalations = ScopedEscalations(self.client.escalations, self.client.jobs.get_many, principal)
        self.bulk = ScopedBulkOperations(self.client.bulk, self.store, self.jobs.chosen, principal)
        self.dead_letters = ScopedDeadLetters(self.client, self.bulk, principal, self.jobs.among)
        self.webhooks = self.client.webhooks  # only those who may see all queues get to its routes
        self.kinds = ScopedKinds(kinds, self.store, principal)
        self.services = self.client.services  # of all queues: their routes are closed to callers who see only some
        self.settings = ScopedSettings(LocalSettings(client.policies, describe), principal)
        self.tokens = ScopedTokens(self.store, principal)
        self.audit = ScopedAudit(self.store, principal)
        self.workers = ScopedWorkers(self.client, principal)
        self.schedules = ScopedSchedules(self.client.schedules, principal)

    async def now(self) -> datetime:
        """Read what time the database has."""
        return await self.client.now()

    @asynccontextmanager
    async def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[JobId] = (),
    ) -> AsyncIterator["CoveredEvents"]:
        """Hear of all that happens in the caller's queues from the moment the block is entered."""
        mine = self.jobs.among(tuple(queues))
        async with self.client.events(types=types, kinds=kinds, queues=mine, jobs=jobs) as events:
            yield CoveredEvents(events)

    def require_queue(self, queue: str) -> None:
        """Refuse a queue that is not theirs, as one that is not there."""
        if not self.principal.sees(queue):  # guard: scope-queue
            raise not_found("queue", queue)


class CoveredEvents:
    """Events with their secrets covered."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return redact(await anext(self._events))
