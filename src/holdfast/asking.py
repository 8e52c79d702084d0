"""The verbs of an app: what its client can do, under the same names."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.client.audit import Audit
from holdfast.client.budgets import Budgets
from holdfast.client.bulk import BulkOperations
from holdfast.client.client import Client
from holdfast.client.dead_letters import DeadLetters
from holdfast.client.escalations import Escalations
from holdfast.client.jobs import Jobs
from holdfast.client.kinds import Kinds
from holdfast.client.limits import Limits
from holdfast.client.locks import Locks
from holdfast.client.queues import Queues
from holdfast.client.schedules import Schedules
from holdfast.client.services import Services
from holdfast.client.subscription import Subscription
from holdfast.client.tokens import Tokens
from holdfast.client.webhooks import Webhooks
from holdfast.client.workers import Workers
from holdfast.duration import Duration
from holdfast.handle import JobHandle
from holdfast.lock import Lock, Part
from holdfast.resources.event import Event
from holdfast.tasks.call import Call

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _asks(
    verb: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Asking, P], Coroutine[Any, Any, T]]":
    """Offer a verb of the client on the app: same name, same parameters, same answer."""

    @functools.wraps(verb)
    async def asked(self: "Asking", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await verb(self.client, *args, **kwargs)

    return asked


class Asking(ABC):
    """Asks the client of whoever has one."""

    @property
    @abstractmethod
    def client(self) -> Client:
        """The client."""

    @property
    def budgets(self) -> Budgets:
        """The budgets: read how much of each is spent and by whom, change their settings."""
        return self.client.budgets

    @property
    def limits(self) -> Limits:
        """The limits in force: read how much of each is in use, change their settings."""
        return self.client.limits

    @property
    def locks(self) -> Locks:
        """The locks that are held: read them, take one from a holder that hangs."""
        return self.client.locks

    @property
    def jobs(self) -> Jobs:
        """The jobs: read and find them, follow them, change one or many."""
        return self.client.jobs

    @property
    def queues(self) -> Queues:
        """The queues: read them, pause and resume them, change their settings."""
        return self.client.queues

    @property
    def webhooks(self) -> Webhooks:
        """The endpoints of webhooks: read them, and enable them again."""
        return self.client.webhooks

    @property
    def kinds(self) -> Kinds:
        """The kinds of jobs that programs have published."""
        return self.client.kinds

    @property
    def services(self) -> Services:
        """The services: read what they did, change how they run."""
        return self.client.services

    @property
    def tokens(self) -> Tokens:
        """The tokens of the server: read, make and revoke them."""
        return self.client.tokens

    @property
    def audit(self) -> Audit:
        """The audit: who did what through the server or the command line."""
        return self.client.audit

    @property
    def workers(self) -> Workers:
        """The workers: read them, ask them to shut down."""
        return self.client.workers

    @property
    def escalations(self) -> Escalations:
        """The escalations: read them, acknowledge and snooze them, test their policies."""
        return self.client.escalations

    @property
    def bulk(self) -> BulkOperations:
        """Bulk operations: one change to many jobs, previewed, started, followed and stopped."""
        return self.client.bulk

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: read them, run and change them, start and end maintenance."""
        return self.client.schedules

    @property
    def dead_letters(self) -> DeadLetters:
        """The dead letters: the jobs that have failed; read their groups, replay, purge and export them."""
        return self.client.dead_letters

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction."""
        return await self.client.enqueue(call)

    async def enqueue_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[JobHandle[R]]:
        """Store many jobs in one round trip; the answers map one to one to the calls."""
        return await self.client.enqueue_many(calls, connection)

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[int | str] = (),
    ) -> AbstractAsyncContextManager[Subscription]:
        """Hear of all that happens to jobs and queues, in whatever process, from the moment the block is entered.

            async with app.events(queues=["bulk"]) as events:
                async for event in events: ...

        One who reads too slowly gets EventsMissed instead of what was lost, and may go on.
        """
        return self.client.events(types=types, kinds=kinds, queues=queues, jobs=jobs)

    def subscribe(
        self,
        callback: Callable[[Event], Any],
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[int | str] = (),
    ) -> AbstractAsyncContextManager[None]:
        """Call a function, or a coroutine function, with each event while the block runs; what it raises is logged."""
        return self.client.subscribe(callback, types=types, kinds=kinds, queues=queues, jobs=jobs)

    def lock(self, *parts: Part, timeout: Duration | None = None) -> AbstractAsyncContextManager[Lock]:
        """Hold a lock that everybody who uses this store respects, while the block runs.

            async with app.lock("edition", 42) as lock:
                await cdn.put(page, token=lock.token)

        The wait has no limit unless `timeout` is given. Inside a job, `ctx.lock(...)` also says for which job it is.
        """
        return self.client.lock(*parts, timeout=timeout)

    overrides = _asks(Client.overrides)
    prune = _asks(Client.prune)
    reset_policy = _asks(Client.reset_policy)
    set_policy = _asks(Client.set_policy)
