"""The client of one opened store: all verbs together."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from holdfast.client.enqueue import Enqueuing
from holdfast.client.jobs import JobId, JobVerbs, job_id
from holdfast.client.queues import QueueVerbs
from holdfast.client.transactional import CallerStore
from holdfast.client.waiting import Waiting
from holdfast.config import Settings
from holdfast.delivery.delivery import Delivery
from holdfast.delivery.in_store import InStore
from holdfast.duration import Duration
from holdfast.handle import JobHandle
from holdfast.job import Job
from holdfast.stores.store import Store
from holdfast.tasks.call import Call

R = TypeVar("R")


class ClientStore(Store, CallerStore, Protocol):
    """A store as an app has it: all verbs, also on connections that are not its own."""


class Client(JobVerbs, QueueVerbs):
    """All verbs on one store, within one event loop."""

    def __init__(self, store: ClientStore, settings: Settings, delivery: Delivery | None = None) -> None:
        self.store = store
        self.delivery = InStore(store) if delivery is None else delivery
        JobVerbs.__init__(self, store, settings.deadline_s, self.delivery.announce)
        QueueVerbs.__init__(self, store, settings.deadline_s)
        self.enqueuing = Enqueuing(store, settings, self, self.delivery)
        self._waiting = Waiting(store)

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction.

        A cancelled enqueue is an unknown one: the job may exist. Enqueue with a key to repeat it safely.
        """
        return await self.enqueuing.one(call)

    async def enqueue_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[JobHandle[R]]:
        """Store many jobs in one round trip; the answers map one to one to the calls."""
        return await self.enqueuing.many(calls, connection)

    async def wait(self, job: JobId, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended and return it; ResultTimeout when it takes longer."""
        return await self._waiting.ended(job_id(job), timeout)

    async def close(self) -> None:
        """Let accepted jobs and their hints go out and end every wait; the store stays open."""
        await self.enqueuing.close()
        await self.delivery.close()
        await self._waiting.close()
