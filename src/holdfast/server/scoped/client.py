"""The client of one caller of a server: everything of the local client, narrowed to the queues they may see."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from holdfast import names
from holdfast.client.client import LocalClient
from holdfast.client.jobs import JobId
from holdfast.client.settings import Describe, LocalSettings
from holdfast.errors import JobNotFound, KeyConflict, UniqueConflict, shown
from holdfast.handle import JobHandle
from holdfast.resources.event import Event
from holdfast.resources.redaction import redact
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.recent import recent
from holdfast.server.scoped.audit import ScopedAudit
from holdfast.server.scoped.budgets import ScopedBudgets
from holdfast.server.scoped.bulk import ScopedBulkOperations
from holdfast.server.scoped.dead_letters import ScopedDeadLetters
from holdfast.server.scoped.escalations import ScopedEscalations
from holdfast.server.scoped.figures import ScopedFigures
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
from holdfast.stream import EventStream
from holdfast.tasks.call import Call

T = TypeVar("T")


class StreamOptions(TypedDict, total=False):
    """The other options of an `EventStream`."""

    job: int | str | None
    types: Iterable[str]
    snapshot: bool
    last_event_id: str | None
    ping_s: float
    check: Callable[[], Awaitable[bool]] | None


class ScopedClient:
    """The namespaces of the local client, as far as one caller may see them, and what only a server has."""

    def __init__(self, client: LocalClient, describe: Describe, principal: Principal, kinds: KindRegistry) -> None:
        self._client = client
        store: Store = client.store
        self.principal = principal
        self.budgets = ScopedBudgets(client.budgets, principal)
        self.limits = ScopedLimits(client, principal)
        self.locks = ScopedLocks(client, principal)
        self.jobs = ScopedJobs(client.jobs, principal, kinds.check_on(store))
        self.queues = ScopedQueues(client.queues, principal)
        self.figures = ScopedFigures(store, principal)
        self.escalations = ScopedEscalations(client.escalations, client.jobs.get_many, principal)
        self.bulk = ScopedBulkOperations(client.bulk, store, self.jobs.chosen, principal)
        self.dead_letters = ScopedDeadLetters(client, self.bulk, principal, self.jobs.among)
        self.webhooks = client.webhooks  # only those who may see all queues get to its routes
        self.kinds = ScopedKinds(kinds, store, principal)
        self.services = client.services  # of all queues: their routes are closed to callers who see only some
        self.settings = ScopedSettings(LocalSettings(client.policies, describe), principal)
        self.tokens = ScopedTokens(store, principal)
        self.audit = ScopedAudit(store, principal)
        self.workers = ScopedWorkers(client, principal)
        self.schedules = ScopedSchedules(client.schedules, principal)

    async def now(self) -> datetime:
        """Read what time the database has."""
        return await self._client.now()

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
        async with self._client.events(types=types, kinds=kinds, queues=mine, jobs=jobs) as events:
            yield CoveredEvents(events)

    async def enqueue(self, call: Call[Any]) -> JobHandle[Any]:
        """Store a job; a caller for some queues learns nothing of a job elsewhere that a key has met."""
        if self.principal.queues is None:
            return await self._client.enqueue(call)
        try:
            handle = await self._client.enqueue(_with_key_of_queue(call))
            if not handle.created:
                await self.jobs.get(handle.id)  # guard: scope-keys
        except (KeyConflict, JobNotFound):
            if call.options.key is None:
                message = f"unique key {shown(call.options.unique)}: another live job holds it; wait for that one"
                raise UniqueConflict(message) from None
            message = f"key {shown(call.options.key)} was used for another request: take another key"
            raise KeyConflict(message) from None
        return handle

    def stream(self, *, queues: Iterable[str] = (), **options: Unpack[StreamOptions]) -> EventStream:
        """Follow what happens in the caller's queues; of others not even a snapshot is read."""
        named = tuple(names.name(queue, "queue") for queue in queues)
        return EventStream(self._client, queues=self.jobs.among(named), **options)

    async def recent(self, key: object, lasts_s: float, ask: Callable[[], Awaitable[T]]) -> T:
        """Answer with what was found a moment ago for a caller who may see the same queues, or find it."""
        return await recent(self._client.store, (self.principal.queues, key), lasts_s, ask)


def _with_key_of_queue(call: Call[Any]) -> Call[Any]:
    """Put the queue before the idempotency key, so that a caller for some queues takes no key of the others."""
    if call.options.key is None:
        return call
    key = names.key(f"{call.queue}/{call.options.key}", "queue and key")
    return replace(call, options=replace(call.options, key=key))  # guard: scope-key-queue, without: return call


class CoveredEvents:
    """Events with their secrets covered."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return redact(await anext(self._events))
